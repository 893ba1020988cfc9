// The built-in data set `synthetic224`: procedurally drawn colour images of any size, for nets for ImageNet. It needs
// no download.
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

/// Label of example `index` of either subset: index mod 100. Its last digit is the digit that the image shows, its
/// first the direction of the grating behind it, in 18 degrees.
constexpr std::int32_t synthetic224_label(std::int64_t index) {
  return static_cast<std::int32_t>(index % kSynthetic224Classes);
}

/// Draws example `index` of a subset: a grating of two colours, whose direction is the label's first digit times 18
/// degrees and up to 4 more or less, and on it the label's last digit as a pen draws it, in a third colour, at a random
/// place, 0.55 to 0.8 of the image high; with noise. Values are in [-1, 1].
///
/// The image is a pure function of (seed, subset, index, size), drawn with DrawPurpose::kSyntheticData: step = 2 for
/// train, 3 for test; Philox blocks index * 8192 and up. Only IEEE operations that round correctly are used, in a fixed
/// order, so bits are equal on every machine.
/// @param image  [size, size, 3] out
/// @throws InvalidArgument if size is not in [kMinSynthetic224Size, kMaxSynthetic224Size], image has another number of
/// values or index is not in [0, 2^35)
void draw_synthetic224(std::uint64_t seed, Subset subset, std::int64_t index, int size, std::span<float> image);

/// The set: kSynthetic224TrainExamples and kSynthetic224TestExamples images of `options.image_size` (0: 224), each
/// drawn when it is read. `options.data_dir` is not used.
/// @throws InvalidArgument for a bad image_size or num_threads
std::unique_ptr<Dataset> make_synthetic224(const DatasetOptions& options);

}  // namespace terngrad
