#include "nets/cuda/add.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::add_test {
namespace {

using terngrad::testing::bits_of;
using terngrad::testing::GuardedArray;
using test::random_floats;
using CudaAdd = terngrad::testing::CudaTest;

/// GPUs give sums with NaN other bits than processors do.
std::vector<float> with_one_nan(std::vector<float> values) {
  for (float& value : values) value = std::isnan(value) ? NAN : value;
  return values;
}

TEST_F(CudaAdd, SumsOfTwoAreWhatTheCpuHas) {
  Stream stream(Device::cuda());
  for (const std::size_t count : {0u, 1u, 70u, 5001u}) {
    for (const std::size_t start : {0u, 2u}) {
      for (const Activation activation : {Activation::kNone, Activation::kRelu}) {
        std::vector<float> a = random_floats(count, 1);
        const std::vector<float> b = random_floats(count, 2);
        if (count > 7) a[7] = NAN;
        std::vector<float> expected(count);
        for (std::size_t i = 0; i < count; ++i) {
          const float sum = a[i] + b[i];
          expected[i] = activation == Activation::kRelu && sum <= 0 ? 0.0f : sum;
        }
        GuardedArray<float> first(a, start, stream);
        GuardedArray<float> second(b, 0, stream);
        GuardedArray<float> sum(std::vector<float>(count, 77.0f), start, stream);
        add(first.data(), second.data(), activation, static_cast<std::int64_t>(count), sum.data(), stream);
        ASSERT_EQ(bits_of(with_one_nan(sum.values())), bits_of(expected)) << count;
        add(first.data(), second.data(), activation, static_cast<std::int64_t>(count), first.data(), stream);
        ASSERT_EQ(bits_of(with_one_nan(first.values())), bits_of(expected)) << count << ", in place";
      }
    }
  }
}

TEST_F(CudaAdd, AddsOneGradientToAnother) {
  Stream stream(Device::cuda());
  for (const std::size_t count : {0u, 1u, 70u, 5001u}) {
    for (const std::size_t start : {0u, 2u}) {
      std::vector<float> expected = random_floats(count, 1);
      const std::vector<float> addend = random_floats(count, 2);
      GuardedArray<float> sum(expected, start, stream);
      GuardedArray<float> there(addend, 0, stream);
      for (std::size_t i = 0; i < count; ++i) expected[i] += addend[i];
      add_to(sum.data(), there.data(), static_cast<std::int64_t>(count), stream);
      ASSERT_EQ(bits_of(sum.values()), bits_of(expected)) << count;
    }
  }
}

TEST_F(CudaAdd, AReluTakesAwayGradientsOfWhatIsNotPositive) {
  Stream stream(Device::cuda());
  for (const std::size_t count : {0u, 3u, 5001u}) {
    std::vector<float> output = random_floats(count, 1);
    for (std::size_t i = 0; i < count; i += 3) output[i] = 0;
    const std::vector<float> gradient = random_floats(count, 2);
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = output[i] > 0 ? gradient[i] : 0.0f;
    GuardedArray<float> out(output, 1, stream);
    GuardedArray<float> out_gradient(gradient, 0, stream);
    GuardedArray<float> in_gradient(std::vector<float>(count, 77.0f), 0, stream);
    relu_gradient(out.data(), out_gradient.data(), static_cast<std::int64_t>(count), in_gradient.data(), stream);
    ASSERT_EQ(in_gradient.values(), expected) << count;
  }
}

}  // namespace
}  // namespace terngrad::cuda::add_test
