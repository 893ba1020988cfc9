// Stratified draws: the draws of N workers for one element, spread evenly over [0, 1).
#pragma once

#include <cstdint>

namespace terngrad {

/// The number of a worker among `num_workers` by the order of their bit-reversed numbers: 0, 2, 1, 3 of four. Any
/// aligned half, quarter, ... of the workers, and any number of the first ones, then has places that are spread evenly.
constexpr std::uint32_t bit_reversed_place(std::uint32_t worker, std::uint32_t num_workers) {
  // Counts the workers whose reversed number is lower: they have a 0 at the lowest bit that differs.
  std::uint32_t place = 0;
  for (std::uint32_t bit = 0; worker >> bit != 0; ++bit) {
    if ((worker >> bit & 1u) == 0) continue;
    const std::uint32_t low = worker & ((1u << bit) - 1);
    place += (num_workers - 1 - low) / (2u << bit) + 1;
  }
  return place;
}

/// A worker's draws as a function of the draws that all N workers share. Workers 2 m and 2 m + 1 are antithetic: they
/// have u and 1 - u, with u = frac(U + place / (N / 2)), U the shared draw, and place that of m among the N / 2 pairs.
/// An odd N has no pairs: u = frac(U + place / N), with the place of the worker among all N. Each worker's draw is
/// uniform, as U is; each of the N intervals [k / N, (k + 1) / N) contains exactly one of the N draws (up to the
/// rounding of offsets to 16 bits); and for even N the draws of each pair add up to 1.
struct Stratum {
  std::uint32_t offset = 0;    // in units of 2^-16, below 2^16
  std::uint32_t mirrored = 0;  // 1: 1 - u in place of u

  /// 16 bits of the worker's draw. @param flips  1 for a negative element, else 0: its draw is 1 - u as well
  constexpr std::uint32_t draw16(std::uint32_t shared, std::uint32_t flips) const {
    return ((shared + offset) ^ (0u - (mirrored ^ flips))) & 0xffffu;
  }
  /// The 24 bits behind them.
  constexpr std::uint32_t refinement(std::uint32_t shared, std::uint32_t flips) const {
    return (shared ^ (0u - (mirrored ^ flips))) & 0xffffffu;
  }
};

/// The stratum of a worker among `num_workers`. @param worker  below num_workers
constexpr Stratum stratum_of(std::uint32_t worker, std::uint32_t num_workers) {
  const bool in_pairs = num_workers % 2 == 0;
  const std::uint32_t strata = in_pairs ? num_workers / 2 : num_workers;
  const std::uint64_t place = bit_reversed_place(in_pairs ? worker / 2 : worker, strata);
  return {static_cast<std::uint32_t>(place * 65536 / strata), in_pairs ? worker % 2 : 0};
}

}  // namespace terngrad
