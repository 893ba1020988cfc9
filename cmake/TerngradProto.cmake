# Code that protoc generates.
include_guard(GLOBAL)

# terngrad_proto(<variable> <file>): sets the variable to the sources of a .proto file, a path within the project; they are
# included as "<path without .proto>.pb.h". The target terngrad_generated makes all of them, for tools that read sources
# without building.
function(terngrad_proto variable proto)
  string(REGEX REPLACE "\\.proto$" "" path ${proto})
  set(generated ${PROJECT_BINARY_DIR}/generated)
  set(sources ${generated}/${path}.pb.cc ${generated}/${path}.pb.h)
  cmake_path(GET path PARENT_PATH folder)
  add_custom_command(
    OUTPUT ${sources}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${generated}/${folder}
    COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${generated} ${proto}
    DEPENDS ${PROJECT_SOURCE_DIR}/${proto} protobuf::protoc
    COMMENT "Generating ${path}.pb.h"
    VERBATIM)
  string(REPLACE "/" "_" target ${path})
  add_custom_target(generate_${target} DEPENDS ${sources})
  if(NOT TARGET terngrad_generated)
    add_custom_target(terngrad_generated)
  endif()
  add_dependencies(terngrad_generated generate_${target})
  # Its warnings are not ours to mend.
  set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -w)
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()
