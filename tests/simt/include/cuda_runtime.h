// Stands in for the CUDA Toolkit's header of this name, found before it by the order of include paths: kernels compile
// as plain C++ and run on the CPU. README.md in the folder above says what that is good for.
#pragma once

#include "simt/arithmetic.h"
#include "simt/block.h"
#include "simt/events_and_graphs.h"
#include "simt/host_api.h"
#include "simt/memory.h"
#include "simt/qualifiers.h"
#include "simt/vector_types.h"
#include "simt/warp.h"
