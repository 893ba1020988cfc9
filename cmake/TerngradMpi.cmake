# Finds MPI and decides whether it is used: TERNGRAD_WITH_MPI.
set(TERNGRAD_MPI "AUTO" CACHE STRING "MPI between processes: ON, OFF, or AUTO (ON where MPI is found)")
set_property(CACHE TERNGRAD_MPI PROPERTY STRINGS AUTO ON OFF)
if(NOT TERNGRAD_MPI MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TERNGRAD_MPI=${TERNGRAD_MPI}: choose AUTO, ON or OFF")
endif()

set(TERNGRAD_WITH_MPI OFF)
if(TERNGRAD_SANITIZE MATCHES "thread")
  # The library is not instrumented: the sanitizer would take what its own threads hand over for races.
  if(TERNGRAD_MPI STREQUAL "ON")
    message(FATAL_ERROR "TERNGRAD_MPI=ON cannot be built with TERNGRAD_SANITIZE=${TERNGRAD_SANITIZE}: turn one off")
  endif()
elseif(NOT TERNGRAD_MPI STREQUAL "OFF")
  # The C interface alone: the one for C++ left the standard with MPI 3.
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI 3.0 QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(TERNGRAD_WITH_MPI ON)
    message(STATUS "MPI ${MPI_CXX_VERSION}: ${MPIEXEC_EXECUTABLE}")
  elseif(TERNGRAD_MPI STREQUAL "ON")
    message(FATAL_ERROR "TERNGRAD_MPI=ON but no MPI 3: install libopenmpi-dev and openmpi-bin, or configure with "
                        "-DTERNGRAD_MPI=OFF")
  endif()
endif()
if(NOT TERNGRAD_WITH_MPI)
  message(STATUS "MPI not used (TERNGRAD_MPI=${TERNGRAD_MPI})")
endif()
