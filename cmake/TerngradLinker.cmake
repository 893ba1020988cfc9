# Chooses the linker: lld takes a third of the time of GNU's for programs with sanitizers and their debug information.
include(CheckLinkerFlag)

set(TERNGRAD_LLD "OFF" CACHE STRING "Link with lld: ON, OFF (what the compiler takes), or AUTO (ON where the compiler finds it)")
set_property(CACHE TERNGRAD_LLD PROPERTY STRINGS AUTO ON OFF)
if(NOT TERNGRAD_LLD MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "TERNGRAD_LLD=${TERNGRAD_LLD}: choose AUTO, ON or OFF")
endif()

if(NOT TERNGRAD_LLD STREQUAL "OFF")
  check_linker_flag(CXX -fuse-ld=lld TERNGRAD_FOUND_LLD)
  if(TERNGRAD_FOUND_LLD)
    # nvcc, which links code for GPUs, has its own linker.
    add_link_options($<HOST_LINK:-fuse-ld=lld>)
  elseif(TERNGRAD_LLD STREQUAL "ON")
    message(FATAL_ERROR "TERNGRAD_LLD=ON but ${CMAKE_CXX_COMPILER} links nothing with -fuse-ld=lld: install lld, or choose "
                        "AUTO or OFF")
  else()
    # Another configuration looks again.
    unset(TERNGRAD_FOUND_LLD CACHE)
  endif()
endif()
