#include "nets/cuda/dropout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"
#include "nets/cpu/dropout_mask.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::dropout_test {
namespace {

using terngrad::testing::bits_of;
using terngrad::testing::GuardedArray;
using CudaDropout = terngrad::testing::CudaTest;

constexpr int kWorkers = 3;
constexpr std::uint64_t kSeed = 0x123456789abcdefull;
constexpr std::uint64_t kStep = 0xab12345678ull;

std::vector<float> on_cpu(const DropoutDraws& draws, float keep_prob, const std::vector<float>& input) {
  std::vector<float> output(input.size());
  const std::size_t per_worker = input.size() / kWorkers;
  for (std::uint32_t w = 0; w < kWorkers; ++w) {
    const DrawKey key{draws.seed, draws.step.step, draws.first_worker + w, DrawPurpose::kDropout};
    cpu::apply_dropout(key, draws.first_draw, keep_prob, input.data() + w * per_worker,
                       static_cast<std::int64_t>(per_worker), output.data() + w * per_worker);
  }
  return output;
}

TEST_F(CudaDropout, EveryWorkerHasTheCpusBits) {
  Stream stream(Device::cuda());
  for (const std::size_t per_worker : {1u, 2u, 3u, 4u, 7u, 100u, 1024u, 1025u, 5000u}) {
    const std::vector<float> input = test::random_floats(kWorkers * per_worker, 1);
    for (const float keep_prob : {0.5f, 0.9f, 1e-6f, 0.99999994f}) {
      // The second range crosses 2^32 blocks.
      for (const std::uint64_t first_draw : {std::uint64_t{0}, (std::uint64_t{1} << 34) - 8}) {
        const DropoutDraws draws{kSeed, {.step = kStep}, 5, first_draw};
        const std::vector<float> expected = on_cpu(draws, keep_prob, input);
        for (const std::size_t start : {0u, 1u}) {
          GuardedArray<float> in(input, start, stream);
          GuardedArray<float> out(std::vector<float>(input.size(), 77.0f), start, stream);
          const auto elements = static_cast<std::int64_t>(per_worker);
          apply_dropout(draws, keep_prob, in.data(), elements, kWorkers, out.data(), stream);
          ASSERT_EQ(bits_of(out.values()), bits_of(expected)) << per_worker << ", keeping " << keep_prob;
          apply_dropout(draws, keep_prob, in.data(), elements, kWorkers, in.data(), stream);
          ASSERT_EQ(bits_of(in.values()), bits_of(expected)) << per_worker << " in place";
        }
      }
    }
  }
}

TEST_F(CudaDropout, ReadsTheStepFromTheDevice) {
  Stream stream(Device::cuda());
  const std::vector<float> input = test::random_floats(kWorkers * 200, 1);
  DropoutDraws draws{kSeed, {.step = kStep}, 0, 40};
  const std::vector<float> expected = on_cpu(draws, 0.5f, input);
  const Buffer<std::uint64_t> step = terngrad::testing::to_device<std::uint64_t>(std::vector{kStep}, stream);
  draws.step = {.step = 1, .on_device = step.data()};
  GuardedArray<float> values(input, 0, stream);
  apply_dropout(draws, 0.5f, values.data(), 200, kWorkers, values.data(), stream);
  EXPECT_EQ(bits_of(values.values()), bits_of(expected));
  EXPECT_NE(expected, on_cpu({kSeed, {.step = 1}, 0, 40}, 0.5f, input));
}

TEST_F(CudaDropout, AnElementWhoseDrawIsTheProbabilityIsDropped) {
  Stream stream(Device::cuda());
  const std::vector<float> input(40, 1.0f);
  const float draw = draw_uniform({kSeed, kStep, 0, DrawPurpose::kDropout}, 17);
  GuardedArray<float> values(input, 0, stream);
  apply_dropout({kSeed, {.step = kStep}, 0, 0}, draw, values.data(), 40, 1, values.data(), stream);
  EXPECT_EQ(values.values()[17], 0.0f);
  GuardedArray<float> above(input, 0, stream);
  apply_dropout({kSeed, {.step = kStep}, 0, 0}, draw + 0x1p-24f, above.data(), 40, 1, above.data(), stream);
  EXPECT_GT(above.values()[17], 0.0f);
}

TEST_F(CudaDropout, RefusesToBeginInsideABlock) {
  Stream stream(Device::cuda());
  EXPECT_THROW(apply_dropout({.first_draw = 2}, 0.5f, nullptr, 1, 1, nullptr, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda::dropout_test
