// The built-in data set `synthetic`: procedurally drawn handwritten digits, without files.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "datasets/dataset.h"

namespace terngrad {

inline constexpr int kSyntheticImageSize = 28;  // height and width of a drawn image
inline constexpr std::int64_t kSyntheticTrainExamples = 60'000;
inline constexpr std::int64_t kSyntheticTestExamples = 10'000;

/// Label of example `index` of either subset: index mod 10, so every run of ten examples holds every digit once.
constexpr std::int32_t synthetic_label(std::int64_t index) { return static_cast<std::int32_t>(index % 10); }

/// Draws example `index` of a subset: a digit in one of several handwriting variants, with jittered pen points, a
/// random smooth bend, rotation, shear, scale, position, stroke width and ink, among clutter (strokes and dots) and
/// pixel noise.
///
/// The image is a pure function of (seed, subset, index), drawn with DrawPurpose::kSyntheticData: step = 0 for train, 1
/// for test; Philox blocks from index * 1024 on. Uses only correctly rounded IEEE operations without contraction, so
/// bits are equal on every machine, for any number of threads.
/// @param pixels  [28, 28] out: 0 = background, 255 = full ink
/// @throws InvalidArgument if pixels has another size or index is not in [0, 2^38)
void draw_synthetic_digit(std::uint64_t seed, Subset subset, std::int64_t index, std::span<std::uint8_t> pixels);

/// Draws a whole subset with `options.num_threads` threads (60,000 images: about 0.7 s of one core) and keeps it in
/// memory. Examples are preprocessed like MNIST's (see GreyImages). `options.data_dir` is ignored.
/// @throws InvalidArgument for an invalid image_size or num_threads
std::unique_ptr<Dataset> make_synthetic(const DatasetOptions& options);

}  // namespace terngrad
