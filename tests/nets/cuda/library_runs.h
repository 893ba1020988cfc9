// Operands, double-precision references and error bounds for tests of matrix products and convolutions.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/captured_graph.h"
#include "nets/cuda/libraries.h"
#include "nets/device_net.h"
#include "support/cuda_device.h"

namespace terngrad::testing {

using Floats = std::vector<float>;

/// Integers from -4 to 4: products and sums of a few thousand are exact in float32 and TF32, in any order.
inline Floats small_integers(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Floats values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return values;
}

/// Sums of products, and of their magnitudes.
struct ReferenceSums {
  std::vector<double> sums;
  std::vector<double> magnitudes;
  explicit ReferenceSums(std::size_t count) : sums(count, 0.0), magnitudes(count, 0.0) {}
  void add(std::size_t i, float a, float b) {
    const double product = static_cast<double>(a) * static_cast<double>(b);
    sums[i] += product;
    magnitudes[i] += std::fabs(product);
  }
  Floats rounded() const { return {sums.begin(), sums.end()}; }
};

/// Compares within the error bound of a sum of `num_terms` products in any order (Higham, Accuracy and Stability of
/// Numerical Algorithms, section 4.2); in TF32 each product has two more roundings.
inline void expect_near_sums(const Floats& values, const ReferenceSums& reference, std::int64_t num_terms,
                             MathMode math) {
  ASSERT_EQ(values.size(), reference.sums.size());
  const double rounding = static_cast<double>(num_terms + 1) * 0x1p-24 + (math == MathMode::kTf32 ? 2 * 0x1p-10 : 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], reference.sums[i], rounding * reference.magnitudes[i] + 1e-30) << "element " << i;
  }
}

inline std::vector<std::uint32_t> bits_of(const Floats& values) {
  std::vector<std::uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<std::uint32_t>(value));
  return bits;
}

/// Device memory of one operation: two operands, result and workspace.
struct Operation {
  Stream& stream;
  Buffer<float> first;
  Buffer<float> second;
  Buffer<float> result;
  Buffer<char> workspace;

  Operation(Stream& on, const Floats& first_values, const Floats& second_values, std::size_t result_count,
            std::int64_t workspace_bytes)
      : stream(on),
        first(to_device<float>(first_values, on)),
        second(to_device<float>(second_values, on)),
        result(static_cast<std::int64_t>(result_count), on.device()),
        workspace(workspace_bytes, on.device()) {
    spoil();
  }

  /// Fills the result with NaN, to reveal elements that are not written, or only added to.
  void spoil() {
    const Floats nan(static_cast<std::size_t>(result.num_elements()), std::numeric_limits<float>::quiet_NaN());
    copy<float>(nan, result.span(), stream);
  }
  template <class Pass>
  void submit(const Pass& pass) {
    pass.run(first.data(), second.data(), result.data(), workspace.data(), stream);
  }
  Floats read() { return to_host<float>(result.span(), stream); }
};

/// Result of one run of a pass (a ConvolutionPass or a MatrixProduct).
template <class Pass>
Floats run_once(const Pass& pass, const Floats& first, const Floats& second, std::size_t result_count, Stream& stream) {
  Operation operation(stream, first, second, result_count, pass.workspace_bytes());
  operation.submit(pass);
  return operation.read();
}

/// Expects bit-identical results of a second run and of replays of a captured graph.
template <class Pass>
void expect_repeatable(const Pass& pass, const Floats& first, const Floats& second, std::size_t result_count,
                       Stream& stream) {
  const Floats expected = run_once(pass, first, second, result_count, stream);
  EXPECT_EQ(bits_of(run_once(pass, first, second, result_count, stream)), bits_of(expected));
  Operation operation(stream, Floats(first.size(), 1.0f), Floats(second.size(), 2.0f), result_count,
                      pass.workspace_bytes());
  operation.submit(pass);
  EXPECT_NE(bits_of(operation.read()), bits_of(expected));
  const CapturedGraph graph(stream, [&] { operation.submit(pass); });
  copy<float>(first, operation.first.span(), stream);
  copy<float>(second, operation.second.span(), stream);
  for (int replay = 0; replay < 2; ++replay) {
    operation.spoil();
    graph.launch(stream);
    EXPECT_EQ(bits_of(operation.read()), bits_of(expected)) << "replay " << replay;
  }
}

}  // namespace terngrad::testing
