// Lanes of m levels: unsigned counts packed into 64-bit words, so that adding words as integers sums the counts of
// several workers.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/codes/ternary.h"

namespace terngrad {

/// Unpacks counts [first, first + out.size()) from lanes of `bits` bits. The payload may have any alignment and must
/// contain them all.
void unpack_lanes(const std::uint8_t* payload, int bits, std::int64_t first, std::span<std::int32_t> out);

/// Writes consecutive counts into the lanes of words.
class LaneWriter {
 public:
  LaneWriter(std::uint64_t* words, int bits) : next_(words), bits_(bits), end_(lanes_per_word(bits) * bits) {}

  void add(std::uint64_t count) {
    word_ |= count << at_;
    at_ += bits_;
    if (at_ == end_) finish();
  }
  /// Writes a partially filled word; missing lanes are zero.
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
