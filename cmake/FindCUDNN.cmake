# Finds cuDNN, which has no CMake package of its own: CUDNN::cudnn, CUDNN_VERSION. Looks beside the CUDA Toolkit too.
# The header with the version, which cuDNN before 8 had in another place.
find_path(CUDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
mark_as_advanced(CUDNN_INCLUDE_DIR CUDNN_LIBRARY)

if(CUDNN_INCLUDE_DIR)
  set(CUDNN_VERSION "")
  foreach(part IN ITEMS MAJOR MINOR PATCHLEVEL)
    file(STRINGS "${CUDNN_INCLUDE_DIR}/cudnn_version.h" line REGEX "^#define CUDNN_${part} +[0-9]+" LIMIT_COUNT 1)
    string(REGEX MATCH "[0-9]+$" number "${line}")
    list(APPEND CUDNN_VERSION "${number}")
  endforeach()
  list(JOIN CUDNN_VERSION "." CUDNN_VERSION)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  CUDNN
  REQUIRED_VARS CUDNN_LIBRARY CUDNN_INCLUDE_DIR
  VERSION_VAR CUDNN_VERSION)

if(CUDNN_FOUND AND NOT TARGET CUDNN::cudnn)
  add_library(CUDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CUDNN::cudnn PROPERTIES IMPORTED_LOCATION "${CUDNN_LIBRARY}"
                                              INTERFACE_INCLUDE_DIRECTORIES "${CUDNN_INCLUDE_DIR}")
endif()
