# Writes build_info.hpp (PITH_VERSION, PITH_COMMIT), which receipts carry. The commit is that of the
# last configure; the Makefile configures before each build.
set(PITH_COMMIT unknown)
find_package(Git QUIET)
if(GIT_FOUND)
  execute_process(
    COMMAND "${GIT_EXECUTABLE}" describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}"
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(PITH_COMMIT "${commit}")
  endif()
endif()

set(PITH_GENERATED_DIR "${CMAKE_CURRENT_BINARY_DIR}/generated")
configure_file("${CMAKE_CURRENT_LIST_DIR}/build_info.hpp.in" "${PITH_GENERATED_DIR}/build_info.hpp" @ONLY)
