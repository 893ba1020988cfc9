// The built-in data set `synthetic224`: procedurally drawn colour images of any size, without files, for ImageNet nets.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "datasets/dataset.h"

namespace terngrad {

inline constexpr int kMinSynthetic224Size = 32;
inline constexpr int kMaxSynthetic224Size = 320;
inline constexpr int kSynthetic224Classes = 100;
inline constexpr std::int64_t kSynthetic224TrainExamples = 20'000;
inline constexpr std::int64_t kSynthetic224TestExamples = 2'000;

/// Label of example `index` of either subset: index mod 100. Its last digit is the digit in the image, its first digit
/// the direction of the grating behind it, in units of 18 degrees.
constexpr std::int32_t synthetic224_label(std::int64_t index) {
  return static_cast<std::int32_t>(index % kSynthetic224Classes);
}

/// Draws example `index` of a subset: a grating of two colours, whose direction is the label's first digit times 18
/// degrees and up to 4 more or less, and on it the label's last digit as a pen draws it, in a third colour, at a random
/// place, 0.55 to 0.8 of the image high; with noise. Values are in [-1, 1].
///
/// The image is a pure function of (seed, subset, index, size), drawn with DrawPurpose::kSyntheticData: step = 2 for
/// train, 3 for test; Philox blocks from index * 8192 on. Uses only correctly rounded IEEE operations in a fixed order,
/// so bits are equal on every machine.
/// @param image  [size, size, 3] out
/// @throws InvalidArgument if size is not in [kMinSynthetic224Size, kMaxSynthetic224Size], image has another number of
/// values or index is not in [0, 2^35)
void draw_synthetic224(std::uint64_t seed, Subset subset, std::int64_t index, int size, std::span<float> image);

/// The set of kSynthetic224TrainExamples or kSynthetic224TestExamples images of `options.image_size` (0: 224), drawn by
/// read(). `options.data_dir` is ignored.
/// @throws InvalidArgument for an invalid image_size or num_threads
std::unique_ptr<Dataset> make_synthetic224(const DatasetOptions& options);

}  // namespace terngrad
