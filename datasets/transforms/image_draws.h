// ImageDraws: random words for preprocessing an image in one visit.
#pragma once

#include <array>
#include <cstdint>

#include "datasets/dataset.h"
#include "kernels/random/philox.h"

namespace terngrad {

inline constexpr int kImageDrawBlocks = 128;  // Philox blocks per example
/// Maximum number of examples: their blocks must fit into the 48 bits of a counter.
inline constexpr std::int64_t kMaxDrawnExamples = std::int64_t{1} << 41;

/// Words of Philox with key visit.seed, step visit.epoch, worker 0, DrawPurpose::kAugmentation and block 128 index + j:
///   j = 0            resizing method and order of colour operations, flip, brightness, saturation
///   j = 1            hue, contrast, shorter side, not used
///   j = 2 + attempt  aspect, height, top, left of a sampled box; a crop takes top and left of attempt 0
/// A data set uses either these draws or those of datasets/transforms/augmentation.h, which has the same counters.
class ImageDraws {
 public:
  /// @throws InvalidArgument for an index not in [0, kMaxDrawnExamples) or an epoch of more than 40 bits
  ImageDraws(const ExampleVisit& visit, std::int64_t index);

  /// @param j  from 0 to kImageDrawBlocks - 1
  std::array<std::uint32_t, 4> block(int j) const {
    return draw_block(key_, first_block_ + static_cast<std::uint64_t>(j));
  }

 private:
  DrawKey key_;
  std::uint64_t first_block_;
};

/// A number in [0, 1) with 24 random bits: word / 2^8 / 2^24.
constexpr float uniform_of(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

/// An integer in [0, count): word * count / 2^32, rounded down.
constexpr int below_of(std::uint32_t word, int count) {
  return static_cast<int>(std::uint64_t{word} * static_cast<std::uint64_t>(count) >> 32);
}

/// A random bit: bit 31.
constexpr bool coin_of(std::uint32_t word) { return word >> 31 != 0; }

}  // namespace terngrad
