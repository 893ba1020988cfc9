# Finds CUDA and decides whether its backend is built: TERNGRAD_WITH_CUDA.
include(CheckLanguage)

set(TERNGRAD_CUDA "AUTO" CACHE STRING "CUDA backend: ON, OFF, or AUTO (ON where nvcc is found)")
set_property(CACHE TERNGRAD_CUDA PROPERTY STRINGS AUTO ON OFF)
if(NOT TERNGRAD_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TERNGRAD_CUDA=${TERNGRAD_CUDA}: choose AUTO, ON or OFF")
endif()
# Data-centre GPUs from Ampere on: machine code for 8.0 and 9.0, and PTX from which a driver compiles for later ones.
set(CMAKE_CUDA_ARCHITECTURES "80-real;90" CACHE STRING "GPU architectures to build for")

set(TERNGRAD_WITH_CUDA OFF)
if(NOT TERNGRAD_CUDA STREQUAL "OFF")
  if(TERNGRAD_SANITIZE)
    # Kernels run under sanitizers in the emulation of tests/simt.
    if(TERNGRAD_CUDA STREQUAL "ON")
      message(FATAL_ERROR "TERNGRAD_CUDA=ON cannot be built with TERNGRAD_SANITIZE=${TERNGRAD_SANITIZE}: turn one off")
    endif()
  else()
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(TERNGRAD_WITH_CUDA ON)
    elseif(TERNGRAD_CUDA STREQUAL "ON")
      message(FATAL_ERROR "TERNGRAD_CUDA=ON but no nvcc: install the CUDA Toolkit (12.4 or later) and put its bin folder on "
                          "the PATH, or set CMAKE_CUDA_COMPILER, or configure with -DTERNGRAD_CUDA=OFF")
    endif()
  endif()
endif()

if(TERNGRAD_WITH_CUDA)
  enable_language(CUDA)
  find_package(CUDAToolkit 12.4 REQUIRED)
  if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    # CMake 3.25 does not know that this nvcc has C++20.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
  endif()
  message(STATUS "CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
else()
  message(STATUS "CUDA backend not built (TERNGRAD_CUDA=${TERNGRAD_CUDA})")
endif()
