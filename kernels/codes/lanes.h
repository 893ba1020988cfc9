// Lanes of m levels: unsigned counts of several workers side by side in 64-bit words, which are added as plain
// integers.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/codes/ternary.h"

namespace terngrad {

/// Counts [first, first + out.size()) of lanes of `bits` bits, of any alignment. The payload holds them all.
void unpack_lanes(const std::uint8_t* payload, int bits, std::int64_t first, std::span<std::int32_t> out);

/// Writes counts into the lanes of words, one after the other.
class LaneWriter {
 public:
  LaneWriter(std::uint64_t* words, int bits) : next_(words), bits_(bits), end_(lanes_per_word(bits) * bits) {}

  void add(std::uint64_t count) {
    word_ |= count << at_;
    at_ += bits_;
    if (at_ == end_) finish();
  }
  /// Writes a word that has been begun; absent lanes are zero.
  void finish() {
    if (at_ == 0) return;
    *next_++ = word_;
    word_ = 0;
    at_ = 0;
  }

 private:
  std::uint64_t* next_;
  int bits_;
  int end_;
  std::uint64_t word_ = 0;
  int at_ = 0;  // bit of the next lane
};

}  // namespace terngrad
