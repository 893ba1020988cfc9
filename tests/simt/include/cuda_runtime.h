// Replaces the CUDA Toolkit's header of this name by include order: kernels compile as plain C++ and run on the CPU.
// See README.md in tests/simt.
#pragma once

#include "simt/arithmetic.h"
#include "simt/block.h"
#include "simt/events_and_graphs.h"
#include "simt/host_api.h"
#include "simt/memory.h"
#include "simt/qualifiers.h"
#include "simt/vector_types.h"
#include "simt/warp.h"
