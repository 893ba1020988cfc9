// The running block: thread indices and synchronization, the basis of the intrinsics. Implemented in scheduler/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <source_location>

#include "simt/vector_types.h"

namespace simt {

/// Source location of an intrinsic call.
using Site = std::source_location;

/// Indices of a thread; the members are threadIdx, blockIdx, blockDim and gridDim.
struct Indices {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
  unsigned linear;  ///< index in the block
  unsigned lane;    ///< index in the warp
};

/// The calling thread. A function never continues in another thread, so the compiler may merge calls in a function.
[[gnu::const]] const Indices& self();

/// Waits for all running threads of the block. @returns the number of threads with a true predicate
unsigned sync_threads(bool predicate, Site site);

/// Waits for the lanes of `mask`. @returns the lanes' values by lane, valid until the lane's next call
/// @param orders_memory  true if earlier writes become visible to the other lanes (__syncwarp); false for shuffles and
/// votes, which do not order memory. Tells the thread sanitizer.
const std::uint64_t* warp_gather(unsigned mask, std::uint64_t value, bool orders_memory, Site site);

void* dynamic_shared();

/// Runs `body` in all threads of the grid and waits for them. An invalid shape runs nothing and sets the error of
/// cudaGetLastError. Launches of several host threads are serialized.
void launch(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, const std::function<void()>& body);

/// Aborts the program and prints the location, the defect and the calling thread.
[[noreturn]] void fail(const char* what, Site site);

}  // namespace simt

#define threadIdx (simt::self().thread)
#define blockIdx (simt::self().block)
#define blockDim (simt::self().block_dim)
#define gridDim (simt::self().grid_dim)
constexpr int warpSize = 32;

// Last parameter of every synchronizing intrinsic.
#define SIMT_SITE simt::Site site = simt::Site::current()
