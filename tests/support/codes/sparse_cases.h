// Test slices for sparse (top-k) encoding, used on both backends.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/sparse/sparse_encoder.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/gradients.h"

namespace terngrad::testing {

struct SparseCase {
  std::string name;
  std::vector<float> values;
  SparseShape shape = {};
  bool is_finite = true;

  float flag() const { return is_finite ? 0.0f : std::numeric_limits<float>::quiet_NaN(); }
};

inline SparseCase sparse_case(std::string name, std::vector<float> values, SparseFormat format, double density,
                              std::int64_t block_elements = 0, SparseValues sent = SparseValues::kFloat32) {
  const auto count = static_cast<std::int64_t>(values.size());
  return {std::move(name), std::move(values), {format, sent, count, density, block_elements}, true};
}

/// Elements of few distinct magnitudes, with many zeros of both signs, denormals and one outlier.
inline std::vector<float> awkward_values(std::size_t count) {
  std::vector<float> values = gaussian(count, 23);
  for (std::size_t i = 0; i < count; ++i) {
    if (i % 3 == 0) values[i] = i % 2 == 0 ? -0.0f : 0.0f;
    if (i % 3 == 1) values[i] = std::round(values[i] * 2) / 2;
    if (i % 97 == 0) values[i] = 1e-41f * static_cast<float>(i % 50);
  }
  values[count / 2] = -1e30f;
  return values;
}

/// Cases in format kRuns if `block_elements` is 0, else kLocal.
inline std::vector<SparseCase> sparse_cases(std::int64_t block_elements, SparseValues sent) {
  const SparseFormat format = block_elements == 0 ? SparseFormat::kRuns : SparseFormat::kLocal;
  std::vector<SparseCase> cases;
  const auto add = [&](const std::string& name, std::vector<float> values, double density) {
    cases.push_back(sparse_case(name + ", density " + std::to_string(density), std::move(values), format, density,
                                block_elements, sent));
  };
  for (const std::size_t count : {1u, 5u, 127u, 1025u, 4096u, 4097u, 33000u}) {
    for (const double density : {0.001, 0.01, 0.3, 1.0}) {
      add(std::to_string(count) + " gaussian", gaussian(count, 3 + count), density);
    }
  }
  add("equal", std::vector<float>(9000, -3.0f), 0.01);
  add("zeros", std::vector<float>(9000, -0.0f), 0.02);
  for (const double density : {0.0001, 0.05, 0.5, 0.9}) add("awkward", awkward_values(20000), density);
  add("not finite", gaussian(5000, 8), 0.01);
  cases.back().is_finite = false;
  cases.back().values[17] = std::numeric_limits<float>::infinity();
  cases.back().values[4999] = std::numeric_limits<float>::quiet_NaN();
  return cases;
}

/// Payload that the CPU backend encodes.
inline std::vector<std::uint8_t> encoded_on_cpu(const SparseCase& c, int num_threads = 1) {
  const std::int64_t room = max_sparse_bytes(c.shape);
  std::vector<std::uint64_t> words(static_cast<std::size_t>((room + 7) / 8));
  auto* const payload = reinterpret_cast<std::uint8_t*>(words.data());
  const float flag = c.flag();
  const SparseEncodeTask task{.values = c.values.data(), .flag = &flag, .shape = c.shape, .payload = payload};
  Stream stream(Device::cpu(), num_threads);
  std::int64_t bytes = 0;
  SparseEncoder().run({&task, 1}, {&bytes, 1}, stream);
  return {payload, payload + bytes};
}

}  // namespace terngrad::testing
