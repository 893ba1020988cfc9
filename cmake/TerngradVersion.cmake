# terngrad::version: the version and the commit that this build comes from, for --version, config.json and benchmark
# contexts. Asked of git in each build that needs it; only the one source is compiled again where the commit is another.
find_package(Git QUIET)
set(version_source ${PROJECT_BINARY_DIR}/generated/version.cpp)
add_custom_target(
  terngrad_write_version
  COMMAND
    ${CMAKE_COMMAND} -D TERNGRAD_VERSION=${PROJECT_VERSION} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D GIT=${GIT_EXECUTABLE} -D
    TEMPLATE=${PROJECT_SOURCE_DIR}/cmake/version.cpp.in -D OUTPUT=${version_source} -P
    ${PROJECT_SOURCE_DIR}/cmake/WriteVersion.cmake
  BYPRODUCTS ${version_source}
  COMMENT "Asking git for the commit"
  VERBATIM)
terngrad_library(version SOURCES ${version_source})
add_dependencies(terngrad_version terngrad_write_version)
