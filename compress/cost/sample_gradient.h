// Synthetic gradients for measurements.
#pragma once

#include <cstdint>
#include <span>

namespace terngrad {

/// Fills `values` with nearly normal numbers of mean 0 and standard deviation 0.01 (sums of four uniform ones), drawn
/// with `seed` and DrawPurpose::kSyntheticData: the same on every machine, with any number of threads.
void fill_sample_gradient(std::span<float> values, std::uint64_t seed, int num_threads);

}  // namespace terngrad
