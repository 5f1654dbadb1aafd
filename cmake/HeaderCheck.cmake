# Compiles each public header alone, without the include paths of the libraries behind it: a user has
# only the standard library. The C header is compiled as C.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}/include"
     "${PROJECT_SOURCE_DIR}/include/*.hpp" "${PROJECT_SOURCE_DIR}/include/*.h")
if(NOT headers)
  return()
endif()

set(units)
foreach(header IN LISTS headers)
  string(REPLACE "/" "_" unit "${header}")
  if(header MATCHES "\\.h$")
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/header_check/${unit}.c")
  else()
    set(unit "${CMAKE_CURRENT_BINARY_DIR}/header_check/${unit}.cpp")
  endif()
  file(CONFIGURE OUTPUT "${unit}" CONTENT "#include <@header@>\nextern int pith_header_check;\n" @ONLY)
  list(APPEND units "${unit}")
endforeach()

add_library(pith_header_check OBJECT ${units})
set_target_properties(pith_header_check PROPERTIES C_STANDARD 11 C_EXTENSIONS OFF)
target_include_directories(pith_header_check PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(pith_header_check PRIVATE pith_options)
