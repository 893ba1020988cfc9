// Optimizer updates on a GPU against the CPU backend, bit for bit.
#include "kernels/optimizer/optimizer.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/guarded_array.h"

namespace terngrad::cuda_optimizer_test {
namespace {

using testing::GuardedArray;
using CudaOptimizer = testing::CudaTest;

using Spans = std::array<std::span<float>, 4>;

/// An optimizer update: array 0 is the weights, arrays 1 and 2 the slots (if any), array 3 the gradient.
struct Update {
  const char* name;
  void (*apply)(const Spans& arrays, float rate, Stream& stream, const StepScalars& scalars);
};

constexpr AdamConstants kAdam{.beta1 = 0.8f, .beta2 = 0.99f, .epsilon = 1e-4f};
constexpr RmspropConstants kRmsprop{.decay = 0.8f, .momentum = 0.7f, .epsilon = 0.5f};

/// The rates of an update; all but Nadam's read the first.
constexpr UpdateRates rates_of(float rate) { return {rate, 0.5f * rate, 0.01f * rate}; }

constexpr Update kUpdates[] = {
    {"gd", [](const Spans& a, float rate, Stream& stream,
              const StepScalars& scalars) { update_gd(a[0], a[3], rate, stream, scalars); }},
    {"momentum", [](const Spans& a, float rate, Stream& stream,
                    const StepScalars& scalars) { update_momentum(a[0], a[1], a[3], rate, 0.9f, stream, scalars); }},
    {"adam", [](const Spans& a, float rate, Stream& stream,
                const StepScalars& scalars) { update_adam(a[0], a[1], a[2], a[3], rate, kAdam, stream, scalars); }},
    {"resting_adam",
     [](const Spans& a, float rate, Stream& stream, const StepScalars& scalars) {
       update_resting_adam(a[0], a[1], a[2], a[3], rate, kAdam, stream, scalars);
     }},
    {"nadam",
     [](const Spans& a, float rate, Stream& stream, const StepScalars& scalars) {
       update_nadam(a[0], a[1], a[2], a[3], rates_of(rate), kAdam, stream, scalars);
     }},
    {"rmsprop",
     [](const Spans& a, float rate, Stream& stream, const StepScalars& scalars) {
       update_rmsprop(a[0], a[2], a[1], a[3], rate, kRmsprop, stream, scalars);
     }},
    {"ema", [](const Spans& a, float rate, Stream& stream,
               const StepScalars& scalars) { update_ema(a[0], a[3], rate, stream, scalars); }},
    {"weight_decay", [](const Spans& a, float rate, Stream& stream,
                        const StepScalars& scalars) { add_weight_decay(a[0], a[3], rate, stream, scalars); }},
};

using Arrays = std::array<std::vector<float>, 4>;

Arrays gaussian_arrays(std::size_t n) {
  Arrays arrays;
  for (std::size_t i = 0; i < 4; ++i) arrays[i] = testing::gaussian(n, 4 * n + i);
  for (float& value : arrays[2]) value *= value;  // mean squares are not negative
  return arrays;
}

/// Runs the update on both backends. Array i starts starts[i] elements after an aligned address.
void expect_same_update(const Update& update, const Arrays& arrays, std::array<std::size_t, 4> starts, float rate) {
  std::string what = update.name;
  what += ", length " + std::to_string(arrays[0].size()) + ", starts";
  for (const std::size_t start : starts) what += ' ' + std::to_string(start);
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  Arrays expected = arrays;
  update.apply({expected[0], expected[1], expected[2], expected[3]}, rate, cpu, {});
  std::vector<GuardedArray<float>> found;
  for (std::size_t i = 0; i < 4; ++i) found.emplace_back(arrays[i], starts[i], cuda);
  update.apply({found[0].span(), found[1].span(), found[2].span(), found[3].span()}, rate, cuda, {});
  for (std::size_t i = 0; i < 4; ++i) {
    testing::expect_same_values(found[i].values(), expected[i], what + ", array " + std::to_string(i));
  }
}

TEST_F(CudaOptimizer, IsTheCpusAtRaggedLengths) {
  std::vector<std::size_t> lengths;
  for (std::size_t n = 0; n <= 70; ++n) lengths.push_back(n);
  // Around the sizes of one and two blocks, for all ways to split them.
  for (std::size_t n : {1024u, 2048u, 4096u}) lengths.insert(lengths.end(), {n - 5, n - 1, n, n + 1, n + 3, n + 5});
  lengths.push_back(20011);
  for (const Update& update : kUpdates) {
    for (const std::size_t n : lengths) expect_same_update(update, gaussian_arrays(n), {0, 0, 0, 0}, 0.1f);
  }
}

TEST_F(CudaOptimizer, DoesNotDependOnAnAlignmentThatArraysShare) {
  for (const Update& update : kUpdates) {
    for (const std::size_t start : {1u, 2u, 3u}) {
      for (const std::size_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 11u, 37u, 2045u, 2047u, 2049u, 2051u, 4095u}) {
        expect_same_update(update, gaussian_arrays(n), {start, start, start, start}, 0.1f);
      }
    }
  }
}

TEST_F(CudaOptimizer, DoesNotDependOnTheAlignmentOfEachArray) {
  const Arrays arrays = gaussian_arrays(2053);
  for (const Update& update : kUpdates) {
    for (std::size_t code = 0; code < 256; code += update.name[0] == 'a' ? 1 : 5) {
      expect_same_update(update, arrays, {code % 4, code / 4 % 4, code / 16 % 4, code / 64}, 0.1f);
    }
  }
}

/// All combinations of hostile values.
Arrays hostile_arrays() {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  const float values[] = {0.0f,     -0.0f, 1.0f,  -1.5f,    tiny,      -1e-40f, 1e-20f,
                          -1.9e19f, huge,  -huge, infinity, -infinity, nan};
  constexpr std::size_t kNum = std::size(values);
  Arrays arrays;
  for (std::size_t i = 0; i < kNum * kNum * kNum * kNum; ++i) {
    arrays[0].push_back(values[i % kNum]);
    arrays[1].push_back(values[i / kNum % kNum]);
    arrays[2].push_back(values[i / kNum / kNum % kNum]);
    arrays[3].push_back(values[i / kNum / kNum / kNum]);
  }
  return arrays;
}

TEST_F(CudaOptimizer, TakesHostileValues) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Arrays arrays = hostile_arrays();
  for (const Update& update : kUpdates) {
    for (const float rate : {0.0f, 0.01f, 1.0f, -2.0f, 1e-40f, 1e38f, infinity, nan}) {
      expect_same_update(update, arrays, {0, 0, 0, 0}, rate);
    }
  }
}

TEST_F(CudaOptimizer, DirectionsAreTheCpus) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const Arrays& arrays : {gaussian_arrays(3), gaussian_arrays(2049), gaussian_arrays(20011), hostile_arrays()}) {
    for (const float bound : {0.5f, 1e38f, std::numeric_limits<float>::infinity()}) {
      std::vector<float> expected = arrays[0];
      to_adam_direction(expected, arrays[1], arrays[2], &bound, kAdam, cpu);
      std::vector<GuardedArray<float>> found;
      for (std::size_t i = 0; i < 3; ++i) found.emplace_back(arrays[i], i, cuda);
      const Buffer<float> on_device = testing::to_device<float>(std::vector<float>{bound}, cuda);
      to_adam_direction(found[0].span(), found[1].span(), found[2].span(), on_device.data(), kAdam, cuda);
      testing::expect_same_values(found[0].values(), expected, "adam_direction");
    }
  }
}

TEST_F(CudaOptimizer, IsTheCpusOverManySteps) {
  for (const Update& update : kUpdates) {
    Arrays arrays = gaussian_arrays(777);
    Stream cpu(Device::cpu(), 1);
    Stream cuda(Device::cuda());
    std::vector<GuardedArray<float>> found;
    for (const std::vector<float>& array : arrays) found.emplace_back(array, 0, cuda);
    for (int step = 1; step <= 20; ++step) {
      const float rate = 0.1f / static_cast<float>(step);
      update.apply({arrays[0], arrays[1], arrays[2], arrays[3]}, rate, cpu, {});
      update.apply({found[0].span(), found[1].span(), found[2].span(), found[3].span()}, rate, cuda, {});
    }
    for (std::size_t i = 0; i < 4; ++i) testing::expect_same_values(found[i].values(), arrays[i], update.name);
  }
}

TEST_F(CudaOptimizer, ReadsTheRateFromTheDevice) {
  for (const Update& update : kUpdates) {
    Stream cpu(Device::cpu(), 1);
    Stream cuda(Device::cuda());
    const Arrays arrays = gaussian_arrays(3001);
    Arrays expected = arrays;
    std::vector<GuardedArray<float>> found;
    for (const std::vector<float>& array : arrays) found.emplace_back(array, 0, cuda);
    Buffer<float> rate = testing::to_device<float>(rates_of(0.25f), cuda);
    for (const float by_value : {0.25f, 0.75f}) {
      update.apply({expected[0], expected[1], expected[2], expected[3]}, by_value, cpu, {});
      update.apply({found[0].span(), found[1].span(), found[2].span(), found[3].span()}, 99.0f, cuda,
                   {.rate = rate.data()});
      copy<float>(rates_of(0.75f), rate.span(), cuda);  // for the next launch, in stream order
    }
    for (std::size_t i = 0; i < 4; ++i) testing::expect_same_values(found[i].values(), expected[i], update.name);
  }
}

TEST_F(CudaOptimizer, WritesNothingWhereTheDeviceSaysSkip) {
  for (const Update& update : kUpdates) {
    Stream cpu(Device::cpu(), 1);
    Stream cuda(Device::cuda());
    const Arrays arrays = gaussian_arrays(3001);
    Arrays expected = arrays;
    update.apply({expected[0], expected[1], expected[2], expected[3]}, 0.1f, cpu, {});
    ASSERT_NE(expected[0], arrays[0]);
    for (const std::uint32_t skip : {0u, 1u, 0x80000000u}) {
      std::vector<GuardedArray<float>> found;
      for (const std::vector<float>& array : arrays) found.emplace_back(array, 0, cuda);
      Buffer<std::uint32_t> flag = testing::to_device<std::uint32_t>(std::vector<std::uint32_t>{skip}, cuda);
      update.apply({found[0].span(), found[1].span(), found[2].span(), found[3].span()}, 0.1f, cuda,
                   {.skip = flag.data()});
      for (std::size_t i = 0; i < 4; ++i) {
        testing::expect_same_values(found[i].values(), skip == 0 ? expected[i] : arrays[i], update.name);
      }
    }
  }
}

}  // namespace
}  // namespace terngrad::cuda_optimizer_test
