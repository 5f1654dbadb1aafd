# Finds ggml and libllama. No version is asked of find_package: their version files refuse across
# major versions, while what pith uses has been stable since ggml 0.20.
find_package(Threads REQUIRED)
find_package(llama CONFIG QUIET)

if(NOT llama_FOUND)
  message(FATAL_ERROR "ggml and libllama are not found. `make setup` builds them; to use your own, "
                      "set CMAKE_PREFIX_PATH to where they are installed.")
endif()
if(NOT GGML_VERSION VERSION_GREATER_EQUAL 0.20)
  message(FATAL_ERROR "ggml ${GGML_VERSION} in ${GGML_LIB_DIR} is too old: pith needs 0.20 or newer.")
endif()
message(STATUS "ggml ${GGML_VERSION} in ${GGML_LIB_DIR}")
