// Block barriers and warp intrinsics.
#pragma once

#include <algorithm>

#include "simt/bits.h"
#include "simt/block.h"

inline void __syncthreads(SIMT_SITE) { simt::sync_threads(false, site); }
inline int __syncthreads_count(int predicate, SIMT_SITE) {
  return static_cast<int>(simt::sync_threads(predicate != 0, site));
}
inline int __syncthreads_or(int predicate, SIMT_SITE) { return simt::sync_threads(predicate != 0, site) > 0; }
inline int __syncthreads_and(int predicate, SIMT_SITE) { return simt::sync_threads(predicate == 0, site) == 0; }
inline void __syncwarp(unsigned mask = ~0u, SIMT_SITE) { simt::warp_gather(mask, 0, true, site); }

namespace simt {

inline bool has_lane(unsigned mask, unsigned lane) { return (mask >> lane & 1) != 0; }

/// First lane of the caller's group of `width` lanes.
inline int group_begin(int width) { return static_cast<int>(self().lane) & -width; }

template <class T>
T read_lane(unsigned mask, T value, int lane, Site site) {
  const std::uint64_t* values = warp_gather(mask, to_bits(value), false, site);
  // The value would be undefined on a GPU.
  if (!has_lane(mask, static_cast<unsigned>(lane))) fail("shuffle reads a lane outside its mask", site);
  return from_bits<T>(values[lane]);
}

/// Mask of the lanes in `mask` for whose value `predicate` is true.
template <class Predicate>
unsigned lanes_where(unsigned mask, std::uint64_t value, Predicate predicate, Site site) {
  const std::uint64_t* values = warp_gather(mask, value, false, site);
  unsigned lanes = 0;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (has_lane(mask, lane) && predicate(values[lane])) lanes |= 1u << lane;
  }
  return lanes;
}

template <class T, class Op>
T reduce(unsigned mask, T value, Op op, Site site) {
  const std::uint64_t* values = warp_gather(mask, to_bits(value), false, site);
  auto lane = static_cast<unsigned>(__builtin_ctz(mask));
  T result = from_bits<T>(values[lane]);
  for (++lane; lane < 32; ++lane) {
    if (has_lane(mask, lane)) result = static_cast<T>(op(result, from_bits<T>(values[lane])));
  }
  return result;
}

}  // namespace simt

// Shuffles within groups of `width` lanes. A lane without a source lane reads its own value.

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_SITE) {
  return simt::read_lane(mask, value, simt::group_begin(width) | (source & (width - 1)), site);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SIMT_SITE) {
  const auto lane = static_cast<int>(simt::self().lane);
  const int source = lane ^ lane_mask;  // may read earlier groups
  return simt::read_lane(mask, value, source < simt::group_begin(width) + width ? source : lane, site);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE) {
  const auto lane = static_cast<int>(simt::self().lane);
  const int source = lane + static_cast<int>(delta);
  return simt::read_lane(mask, value, source < simt::group_begin(width) + width ? source : lane, site);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMT_SITE) {
  const auto lane = static_cast<int>(simt::self().lane);
  const int source = lane - static_cast<int>(delta);
  return simt::read_lane(mask, value, source >= simt::group_begin(width) ? source : lane, site);
}

// Votes.

inline unsigned __ballot_sync(unsigned mask, int predicate, SIMT_SITE) {
  return simt::lanes_where(
      mask, predicate != 0, [](std::uint64_t value) { return value != 0; }, site);
}
inline int __any_sync(unsigned mask, int predicate, SIMT_SITE) { return __ballot_sync(mask, predicate, site) != 0; }
inline int __all_sync(unsigned mask, int predicate, SIMT_SITE) { return __ballot_sync(mask, predicate, site) == mask; }

template <class T>
unsigned __match_any_sync(unsigned mask, T value, SIMT_SITE) {
  const std::uint64_t own = simt::to_bits(value);
  return simt::lanes_where(
      mask, own, [own](std::uint64_t other) { return other == own; }, site);
}

// Reductions, of 32-bit integers as in the instructions that do them.

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, SIMT_SITE) {
  return simt::reduce(mask, value, std::plus<>(), site);
}
inline int __reduce_add_sync(unsigned mask, int value, SIMT_SITE) {
  return static_cast<int>(simt::reduce(mask, static_cast<unsigned>(value), std::plus<>(), site));  // wraps around
}

#define SIMT_REDUCE(name, T, op)                                       \
  inline T __reduce_##name##_sync(unsigned mask, T value, SIMT_SITE) { \
    return simt::reduce(                                               \
        mask, value, [](T a, T b) { return op; }, site);               \
  }
SIMT_REDUCE(min, unsigned, std::min(a, b))
SIMT_REDUCE(min, int, std::min(a, b))
SIMT_REDUCE(max, unsigned, std::max(a, b))
SIMT_REDUCE(max, int, std::max(a, b))
SIMT_REDUCE(and, unsigned, a& b)
SIMT_REDUCE(or, unsigned, a | b)
SIMT_REDUCE(xor, unsigned, a ^ b)
#undef SIMT_REDUCE
