# Installation: headers, static libraries, and the CMake package that find_package(terngrad) reads.
#
# Three export sets, so that a program which only compresses needs neither oneDNN nor Boost, and one in C nothing else:
#   terngradTargets          terngrad::kernels, terngrad::compress, terngrad::version
#   terngradTrainersTargets  terngrad::nets, terngrad::datasets, terngrad::trainers; only if TERNGRAD_BUILD_TRAINERS
#   terngradCTargets         terngrad::c; only if TERNGRAD_BUILD_CAPI, and with what pkg-config reads
# Commands install themselves (terngrad_command).
include(CMakePackageConfigHelpers)

set(TERNGRAD_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/terngrad)

# terngrad_dependency_calls(variable targets...): the find_dependency calls that a consumer of these static libraries
# needs, read off what they link. PRIVATE libraries count too: a static library leaves its linking to the consumer.
function(terngrad_dependency_calls variable)
  set(calls "")
  foreach(target IN LISTS ARGN)
    get_target_property(libraries ${target} LINK_LIBRARIES)
    foreach(library IN LISTS libraries)
      if(NOT library MATCHES "::" OR library MATCHES "^(::@|terngrad::)")
        continue() # a plain file or flag, the marker of a directory, or one of ours
      elseif(library STREQUAL "Threads::Threads")
        set(call "find_dependency(Threads)")
      elseif(library STREQUAL "OpenMP::OpenMP_CXX")
        set(call "find_dependency(OpenMP COMPONENTS CXX)")
      elseif(library MATCHES "^CUDA::cudart(_static)?$")
        set(call "find_dependency(CUDAToolkit)")
      elseif(library STREQUAL "NCCL::nccl")
        set(call "find_dependency(NCCL)") # by FindNCCL.cmake, which is installed so too
      elseif(library STREQUAL "CUDNN::cudnn")
        set(call "find_dependency(CUDNN)") # by FindCUDNN.cmake, which is installed so too
      elseif(library STREQUAL "MPI::MPI_CXX")
        set(call "set(MPI_CXX_SKIP_MPICXX ON)\nfind_dependency(MPI COMPONENTS CXX)")
      elseif(library STREQUAL "hwy::hwy")
        set(call "find_dependency(hwy)")
      elseif(library STREQUAL "ISAL::isal")
        set(call "find_dependency(ISAL)") # by FindISAL.cmake, which is installed beside the package's files
      elseif(library STREQUAL "DNNL::dnnl")
        set(call "find_dependency(dnnl)")
      elseif(library STREQUAL "ZLIB::ZLIB")
        set(call "find_dependency(ZLIB)")
      elseif(library STREQUAL "JPEG::JPEG")
        set(call "find_dependency(JPEG)")
      elseif(library STREQUAL "PNG::PNG")
        set(call "find_dependency(PNG)")
      elseif(library STREQUAL "LibLZMA::LibLZMA")
        set(call "find_dependency(LibLZMA)")
      elseif(library STREQUAL "Boost::program_options")
        set(call "find_dependency(Boost COMPONENTS program_options)")
      elseif(library STREQUAL "protobuf::libprotobuf-lite")
        set(call "find_dependency(Protobuf)")
      elseif(library STREQUAL "nlohmann_json::nlohmann_json")
        set(call "find_dependency(nlohmann_json)")
      elseif(library STREQUAL "fmt::fmt")
        set(call "find_dependency(fmt)")
      else()
        message(FATAL_ERROR "${target} links ${library}: say in cmake/TerngradInstall.cmake which package it is from")
      endif()
      list(APPEND calls "${call}")
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES calls)
  list(JOIN calls "\n" calls)
  set(${variable} "${calls}" PARENT_SCOPE)
endfunction()

# terngrad_install_libraries(export_set names...): libraries terngrad_<name> with the headers of their folders. What lies
# in a backend's folder (cpu/, cuda/) is internal, and so is what needs MPI's own header. tests/consumer includes all
# that is installed.
function(terngrad_install_libraries export_set)
  foreach(name IN LISTS ARGN)
    install(
      TARGETS terngrad_${name}
      EXPORT ${export_set}
      ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(
      DIRECTORY ${PROJECT_SOURCE_DIR}/${name}/
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/terngrad/${name}
      FILES_MATCHING
      PATTERN "*.h"
      PATTERN "cpu" EXCLUDE
      PATTERN "cuda" EXCLUDE
      PATTERN "common" EXCLUDE
      REGEX "/mpi_(group|mailbox|operation|requests)[.]h$" EXCLUDE)
  endforeach()
  install(
    EXPORT ${export_set}
    NAMESPACE terngrad::
    DESTINATION ${TERNGRAD_PACKAGE_DIR})
endfunction()

install(
  TARGETS terngrad_version
  EXPORT terngradTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
terngrad_install_libraries(terngradTargets kernels compress)
terngrad_dependency_calls(TERNGRAD_FIND_DEPENDENCIES terngrad_kernels terngrad_compress)
set(TERNGRAD_FIND_TRAINERS_DEPENDENCIES "")
if(TERNGRAD_BUILD_TRAINERS)
  terngrad_install_libraries(terngradTrainersTargets nets datasets trainers)
  terngrad_dependency_calls(TERNGRAD_FIND_TRAINERS_DEPENDENCIES terngrad_nets terngrad_datasets terngrad_trainers)
endif()

if(TERNGRAD_BUILD_CAPI)
  install(
    TARGETS terngrad_c
    EXPORT terngradCTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(
    EXPORT terngradCTargets
    NAMESPACE terngrad::
    DESTINATION ${TERNGRAD_PACKAGE_DIR})
  install(FILES ${PROJECT_SOURCE_DIR}/capi/terngrad.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  # An installation that is moved is found where it is.
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE
             TERNGRAD_PC_PREFIX)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/terngrad.pc.in ${PROJECT_BINARY_DIR}/terngrad.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/terngrad.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/terngradConfig.cmake.in ${PROJECT_BINARY_DIR}/terngradConfig.cmake
  INSTALL_DESTINATION ${TERNGRAD_PACKAGE_DIR}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change interfaces.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/terngradConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/terngradConfig.cmake ${PROJECT_BINARY_DIR}/terngradConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindISAL.cmake
        DESTINATION ${TERNGRAD_PACKAGE_DIR})
if(TERNGRAD_WITH_NCCL)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindNCCL.cmake DESTINATION ${TERNGRAD_PACKAGE_DIR})
endif()
if(TERNGRAD_WITH_CUDNN AND TERNGRAD_BUILD_TRAINERS)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/FindCUDNN.cmake DESTINATION ${TERNGRAD_PACKAGE_DIR})
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The driver of the paper's experiments, beside the commands that it starts.
if(TERNGRAD_BUILD_TRAINERS)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/experiments/terngrad_experiment.py DESTINATION ${CMAKE_INSTALL_BINDIR}
          RENAME terngrad_experiment)
  install(
    DIRECTORY ${PROJECT_SOURCE_DIR}/experiments/terngrad_experiments ${PROJECT_SOURCE_DIR}/experiments/recipes
              ${PROJECT_SOURCE_DIR}/experiments/clusters
    DESTINATION ${CMAKE_INSTALL_DATADIR}/terngrad
    PATTERN __pycache__ EXCLUDE)
  install(
    DIRECTORY ${PROJECT_SOURCE_DIR}/experiments/results
    DESTINATION ${CMAKE_INSTALL_DATADIR}/terngrad
    FILES_MATCHING PATTERN "*.jsonl"
    PATTERN "cifar10-alexnet-n2" EXCLUDE
    PATTERN "mnist-lenet-*" EXCLUDE)
endif()
