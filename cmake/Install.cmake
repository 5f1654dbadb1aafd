# Installs the tool, the library, its headers, and a CMake package. Where ggml and libllama come from
# scripts/setup, they are installed too, under lib/pith: the cache folder may then be deleted.
if(NOT TARGET pith OR NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/pith")
set(runtime_dir "${CMAKE_INSTALL_LIBDIR}/pith/runtime")

if(PITH_KIT)
  install(DIRECTORY "${PITH_KIT}/include" "${PITH_KIT}/lib" DESTINATION "${runtime_dir}"
          PATTERN pkgconfig EXCLUDE PATTERN "libllama-common*" EXCLUDE)
  set(PITH_RUNTIME_DIR "${runtime_dir}")
  file(RELATIVE_PATH rpath "/${CMAKE_INSTALL_BINDIR}" "/${runtime_dir}/lib")
  set(rpath "$ORIGIN/${rpath}")
else()
  set(PITH_RUNTIME_DIR "")
  set(rpath "${GGML_LIB_DIR}" "${LLAMA_LIB_DIR}")
endif()

if(TARGET pith_tool)
  set_target_properties(pith_tool PROPERTIES INSTALL_RPATH "${rpath}")
  install(TARGETS pith_tool RUNTIME)
endif()
install(TARGETS pith EXPORT pith ARCHIVE)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/" TYPE INCLUDE)
install(FILES LICENSE THIRD_PARTY.md TYPE DOC)
install(DIRECTORY licenses TYPE DOC)

configure_package_config_file(
  cmake/pithConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/pithConfig.cmake"
  INSTALL_DESTINATION "${package_dir}" PATH_VARS PITH_RUNTIME_DIR)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/pithConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/pithConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/pithConfigVersion.cmake"
        DESTINATION "${package_dir}")
install(EXPORT pith NAMESPACE pith:: FILE pithTargets.cmake DESTINATION "${package_dir}")
