// The block that runs: who a thread is, and where threads meet. What intrinsics are made of; scheduler/ implements it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

#include "simt/vector_types.h"

namespace simt {

/// Where in the kernel's source a thread calls an intrinsic.
using Site = std::source_location;

/// What a thread can know of itself. The members are what threadIdx, blockIdx, blockDim and gridDim stand for.
struct Indices {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
  unsigned linear;  ///< its number in the block
  unsigned lane;    ///< its number in the warp
};

/// The calling thread. A function is never left by one thread and continued by another, so the compiler may call
/// this once per function.
[[gnu::const]] const Indices& self();

/// Waits for all threads of the block that have not ended. @returns how many of them came with a true predicate
unsigned sync_threads(bool predicate, Site site);

/// Waits for the lanes of `mask`. @returns the values that they brought, by lane, valid until the lane's next call
/// @param orders_memory  whether what lanes wrote before is visible to the others after. Shuffles and votes promise
/// nothing of the kind, __syncwarp does; the thread sanitizer is told.
const std::uint64_t* warp_gather(unsigned mask, std::uint64_t value, bool orders_memory, Site site);

void* dynamic_shared();

/// Runs `body` in every thread of the grid and returns when all have ended. A shape that no GPU takes runs nothing and
/// is left for cudaGetLastError. Launches of several host threads wait for each other.
void launch(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, const std::function<void()>& body);

/// Ends the program: names the place, the defect and the calling thread.
[[noreturn]] void fail(const char* what, Site site);

}  // namespace simt

#define threadIdx (simt::self().thread)
#define blockIdx (simt::self().block)
#define blockDim (simt::self().block_dim)
#define gridDim (simt::self().grid_dim)
constexpr int warpSize = 32;

// The last parameter of every intrinsic at which threads meet.
#define SIMT_SITE simt::Site site = simt::Site::current()
