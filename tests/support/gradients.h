// Random gradients for tests, from a generator of their own: independent of the draws under test.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad::testing {

inline double uniform(std::mt19937_64& random) { return (static_cast<double>(random() >> 11) + 0.5) * 0x1p-53; }

/// Normal deviates (Box-Muller): std::normal_distribution differs between standard libraries.
inline std::vector<float> gaussian(std::size_t count, std::uint64_t seed, double deviation = 1) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; i += 2) {
    const double radius = std::sqrt(-2 * std::log(uniform(random)));
    const double angle = 2 * 3.14159265358979323846 * uniform(random);
    values[i] = static_cast<float>(deviation * radius * std::cos(angle));
    if (i + 1 < count) values[i + 1] = static_cast<float>(deviation * radius * std::sin(angle));
  }
  return values;
}

/// Laplace deviates of unit variance.
inline std::vector<float> laplace(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const double u = uniform(random) - 0.5;
    const double magnitude = -std::sqrt(0.5) * std::log(1 - 2 * std::fabs(u));
    value = static_cast<float>(u < 0 ? -magnitude : magnitude);
  }
  return values;
}

/// One worker's tensors, one vector each, with their table.
struct Tensors {
  std::vector<std::vector<float>> values;
  TensorTable table;

  Tensors() = default;
  Tensors(const Layout& layout, std::vector<std::vector<float>> tensors) : values(std::move(tensors)) {
    std::vector<float*> pointers;
    for (auto& tensor : values) pointers.push_back(tensor.data());
    table = TensorTable(layout, pointers);
  }
};

inline Tensors gaussian_tensors(const Layout& layout, std::uint64_t seed, double deviation = 1) {
  std::vector<std::vector<float>> tensors;
  for (const Segment& segment : layout.segments()) {
    tensors.push_back(
        gaussian(static_cast<std::size_t>(segment.num_elements), seed * 1000 + tensors.size(), deviation));
  }
  return {layout, std::move(tensors)};
}

/// Result tensors, filled with a sentinel that no mean contains.
inline Tensors blank_tensors(const Layout& layout) {
  std::vector<std::vector<float>> tensors;
  for (const Segment& segment : layout.segments()) {
    tensors.emplace_back(static_cast<std::size_t>(segment.num_elements), -123456.0f);
  }
  return {layout, std::move(tensors)};
}

}  // namespace terngrad::testing
