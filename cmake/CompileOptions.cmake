# pith_options: how everything in this tree is compiled. Library, tests and benchmarks must agree
# on the processor, because it sets Eigen's alignment.
add_library(pith_options INTERFACE)

target_compile_options(pith_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow)
if(PITH_WERROR)
  target_compile_options(pith_options INTERFACE -Werror)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms of GCC 12 with optimisation: the first two in AVX-512 intrinsics under Eigen and under
  # the sanitizers, the third in std::string's operator+ (GCC bug 105651).
  target_compile_options(pith_options INTERFACE -Wno-uninitialized -Wno-maybe-uninitialized -Wno-restrict)
endif()

# Fused multiply-add in the kernels; a strict -std would turn it off.
target_compile_options(pith_options INTERFACE -ffp-contract=fast)

if(PITH_NATIVE)
  include(CheckCXXCompilerFlag)
  check_cxx_compiler_flag(-march=native PITH_HAS_MARCH_NATIVE)
  if(PITH_HAS_MARCH_NATIVE)
    target_compile_options(pith_options INTERFACE -march=native)
  endif()
endif()

if(PITH_SANITIZE)
  target_compile_options(pith_options INTERFACE
    -fsanitize=${PITH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(pith_options INTERFACE -fsanitize=${PITH_SANITIZE})
endif()
