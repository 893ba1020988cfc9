# The commit this build comes from, for --version, config.json and benchmark contexts.
set(TERNGRAD_COMMIT "unknown")
find_package(Git QUIET)
if(Git_FOUND)
  execute_process(
    COMMAND ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    OUTPUT_VARIABLE TERNGRAD_GIT_DESCRIBE
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    RESULT_VARIABLE TERNGRAD_GIT_RESULT)
  if(TERNGRAD_GIT_RESULT EQUAL 0)
    set(TERNGRAD_COMMIT ${TERNGRAD_GIT_DESCRIBE})
  endif()
endif()

configure_file(${PROJECT_SOURCE_DIR}/cmake/version.h.in ${PROJECT_BINARY_DIR}/generated/version.h @ONLY)
