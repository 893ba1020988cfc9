// ExampleDraws: random numbers for generating an example.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/random/philox.h"

namespace terngrad {

/// The sequence of draws of one example.
class ExampleDraws {
 public:
  ExampleDraws(const DrawKey& key, std::uint64_t first_block) : key_(key), next_block_(first_block) {}

  std::uint32_t next() {
    if (used_ == words_.size()) {
      words_ = draw_block(key_, next_block_++);
      used_ = 0;
    }
    return words_[used_++];
  }
  /// Uniform in [low, high), 24 random bits.
  float uniform(float low, float high) { return low + (high - low) * (static_cast<float>(next() >> 8) * 0x1p-24f); }
  float symmetric(float limit) { return uniform(-limit, limit); }
  /// Uniform in [0, count), with a bias of at most count / 2^32.
  std::uint32_t below(std::uint32_t count) { return static_cast<std::uint32_t>(std::uint64_t{next()} * count >> 32); }

 private:
  DrawKey key_;
  std::uint64_t next_block_;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

}  // namespace terngrad
