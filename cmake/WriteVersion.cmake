# Writes the source that says which version and commit a build comes from; where it says so already, it stays as it is.
#
#   cmake -D TERNGRAD_VERSION=0.1.0 -D SOURCE_DIR=... -D GIT=... -D TEMPLATE=version.cpp.in -D OUTPUT=version.cpp -P WriteVersion.cmake
#
# GIT: the program; empty where there is none.
set(TERNGRAD_COMMIT "unknown")
if(GIT)
  execute_process(
    COMMAND ${GIT} describe --always --dirty --abbrev=12
    WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE described
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    RESULT_VARIABLE result)
  if(result EQUAL 0)
    # A description longer than its place in the source loses its beginning, the tag; its end names the commit.
    string(LENGTH "${described}" length)
    if(length GREATER 63)
      math(EXPR begin "${length} - 63")
      string(SUBSTRING "${described}" ${begin} 63 described)
    endif()
    set(TERNGRAD_COMMIT ${described})
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
