#include "nets/cuda/softmax_cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "nets/softmax_cross_entropy.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/guarded_array.h"
#include "support/sanitized.h"
#include "tests/nets/reference_net.h"

namespace terngrad::cuda::softmax_cross_entropy_test {
namespace {

using terngrad::testing::GuardedArray;
using test::random_floats;
using CudaSoftmaxCrossEntropy = terngrad::testing::CudaTest;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

struct Batch {
  int examples = 1;
  int workers = 1;
  int classes = 1;
  std::vector<float> logits;
  std::vector<std::int32_t> labels;

  Batch slice(int worker) const {
    const auto n = static_cast<std::size_t>(examples);
    const auto w = static_cast<std::size_t>(worker);
    const auto z =
        std::span(logits).subspan(w * n * static_cast<std::size_t>(classes), n * static_cast<std::size_t>(classes));
    const auto y = std::span(labels).subspan(w * n, n);
    return {examples, 1, classes, {z.begin(), z.end()}, {y.begin(), y.end()}};
  }
};

/// Logits in [-8, 8), multiples of 1/2, so that many are equal.
Batch make_batch(int examples, int workers, int classes) {
  const auto count = static_cast<std::size_t>(examples * workers);
  Batch batch{examples, workers, classes, random_floats(count * static_cast<std::size_t>(classes), 1),
              test::cyclic_labels(examples * workers, classes)};
  for (float& z : batch.logits) z = std::floor(16 * z) / 2;
  return batch;
}

struct Result {
  std::vector<WorkerLoss> losses;
  std::vector<float> gradient;
};

enum class Gradient { kWanted, kInPlace, kUnwanted };

Result on_device(const Batch& batch, Stream& stream, Gradient kind = Gradient::kWanted, const LossTerm& term = {},
                 const WorkerLoss& before = {}) {
  GuardedArray<float> logits(batch.logits, 1, stream);
  GuardedArray<std::int32_t> labels(batch.labels, 1, stream);
  GuardedArray<float> gradient(std::vector<float>(batch.logits.size(), 77.0f), 1, stream);
  Buffer<WorkerLoss> example_losses(batch.examples * batch.workers, stream.device());
  Buffer<WorkerLoss> losses = terngrad::testing::to_device<WorkerLoss>(
      std::vector<WorkerLoss>(static_cast<std::size_t>(batch.workers), before), stream);
  float* const target = kind == Gradient::kWanted    ? gradient.data()
                        : kind == Gradient::kInPlace ? logits.data()
                                                     : nullptr;
  softmax_cross_entropy(logits.data(), labels.data(), batch.examples, batch.workers, batch.classes, target,
                        example_losses.data(), losses.data(), stream, term);
  if (kind != Gradient::kInPlace) terngrad::testing::expect_same_values(logits.values(), batch.logits, "logits");
  return {terngrad::testing::to_host<WorkerLoss>(losses.span(), stream),
          kind == Gradient::kInPlace ? logits.values() : gradient.values()};
}

Result on_cpu(const Batch& batch, const LossTerm& term = {}) {
  Result result{{}, std::vector<float>(batch.logits.size())};
  result.losses.push_back(
      terngrad::softmax_cross_entropy(batch.logits, batch.labels, batch.classes, result.gradient, term));
  return result;
}

/// Compares with a tolerance, since exponentials differ in the last bits.
void expect_near(const Result& found, const Result& expected) {
  ASSERT_EQ(found.losses.size(), 1u);
  EXPECT_EQ(found.losses[0].num_correct, expected.losses[0].num_correct);
  EXPECT_NEAR(found.losses[0].entropy_loss, expected.losses[0].entropy_loss, 1e-13);
  EXPECT_EQ(found.losses[0].auxiliary_loss, 0);
  for (std::size_t i = 0; i < expected.gradient.size(); ++i) {
    ASSERT_NEAR(found.gradient[i], expected.gradient[i], 1.2e-7 * std::abs(expected.gradient[i]) + 1e-15) << i;
  }
}

TEST_F(CudaSoftmaxCrossEntropy, EachWorkerHasWhatTheCpuGivesItsSlice) {
  Stream stream(Device::cuda());
  for (const int classes : testing::few({10, 129, 1, 2, 31, 32, 33, 128, 256, 1000})) {
    for (const int examples : {1, 2, 17, 300}) {
      if (examples * classes > 6000) continue;
      constexpr int kWorkers = 3;
      const Batch batch = make_batch(examples, kWorkers, classes);
      const Result all = on_device(batch, stream);
      for (int w = 0; w < kWorkers; ++w) {
        SCOPED_TRACE(::testing::Message() << classes << " classes, " << examples << " examples, worker " << w);
        const Batch slice = batch.slice(w);
        const Result alone = on_device(slice, stream);
        expect_near(alone, on_cpu(slice));
        const auto of_worker =
            std::span(all.gradient).subspan(static_cast<std::size_t>(w) * slice.logits.size(), slice.logits.size());
        ASSERT_EQ(terngrad::testing::bits_of(of_worker), terngrad::testing::bits_of(alone.gradient));
        const WorkerLoss& loss = all.losses[static_cast<std::size_t>(w)];
        ASSERT_EQ(terngrad::testing::bits_of(loss.entropy_loss),
                  terngrad::testing::bits_of(alone.losses[0].entropy_loss));
        ASSERT_EQ(loss.num_correct, alone.losses[0].num_correct);
      }
    }
  }
}

TEST_F(CudaSoftmaxCrossEntropy, SmoothsLabelsAndWeighsAsTheCpuDoes) {
  Stream stream(Device::cuda());
  for (const int classes : {1, 10, 129}) {
    SCOPED_TRACE(classes);
    const Batch batch = make_batch(17, 1, classes);
    const LossTerm smoothed{.label_smoothing = 0.25f, .weight = 0.75f};
    // Auxiliary terms add to the previous losses; the main term overwrites them.
    expect_near(on_device(batch, stream, Gradient::kWanted, smoothed, {1.0, 7, 9.0}), on_cpu(batch, smoothed));
    LossTerm auxiliary = smoothed;
    auxiliary.is_auxiliary = true;
    const Result found = on_device(batch, stream, Gradient::kWanted, auxiliary, {1.0, 7, 9.0});
    const Result expected = on_cpu(batch, auxiliary);
    EXPECT_EQ(found.losses[0].entropy_loss, 1.0);
    EXPECT_EQ(found.losses[0].num_correct, 7);
    EXPECT_NEAR(found.losses[0].auxiliary_loss, 9.0 + expected.losses[0].auxiliary_loss, 1e-13);
    EXPECT_LE(test::relative_difference(found.gradient, test::widen(expected.gradient)), 1e-6);
  }
}

TEST_F(CudaSoftmaxCrossEntropy, TakesAMillionClasses) {
  Stream stream(Device::cuda());
  const Batch batch = make_batch(1, 1, 1 << 20);
  const Result found = on_device(batch, stream);
  const Result expected = on_cpu(batch);
  EXPECT_NEAR(found.losses[0].entropy_loss, expected.losses[0].entropy_loss, 1e-12);
  EXPECT_LE(test::relative_difference(found.gradient, test::widen(expected.gradient)), 1e-7);
}

TEST_F(CudaSoftmaxCrossEntropy, GradientMayTakeTheLogitsPlaceOrBeLeftOut) {
  Stream stream(Device::cuda());
  for (const int classes : {10, 300}) {
    const Batch batch = make_batch(5, 2, classes);
    const Result expected = on_device(batch, stream);
    const Result in_place = on_device(batch, stream, Gradient::kInPlace);
    EXPECT_EQ(in_place.gradient, expected.gradient);
    for (std::size_t w = 0; w < 2; ++w) EXPECT_EQ(in_place.losses[w].entropy_loss, expected.losses[w].entropy_loss);
    const Result without = on_device(batch, stream, Gradient::kUnwanted);
    EXPECT_EQ(without.losses[1].entropy_loss, expected.losses[1].entropy_loss);
    EXPECT_EQ(without.gradient, std::vector<float>(batch.logits.size(), 77.0f));
  }
}

TEST_F(CudaSoftmaxCrossEntropy, HugeLogitsDoNotOverflow) {
  Stream stream(Device::cuda());
  const Result found = on_device({2, 1, 3, {3e38f, -3e38f, 1e38f, 3e38f, -3e38f, 1e38f}, {0, 1}}, stream);
  EXPECT_NEAR(found.losses[0].entropy_loss, 3e38, 1e32);
  EXPECT_EQ(found.gradient, (std::vector<float>{0, 0, 0, 0.5f, -0.5f, 0}));
  EXPECT_EQ(found.losses[0].num_correct, 1);
}

TEST_F(CudaSoftmaxCrossEntropy, WhatIsNotFiniteCountsAsOnTheCpu) {
  Stream stream(Device::cuda());
  const std::vector<std::vector<float>> rows = {{1, kNan, 2},
                                                {kNan, 1, 2},
                                                {1, 2, kNan},
                                                {kNan, kNan, kNan},
                                                {INFINITY, 1, INFINITY},
                                                {-INFINITY, -INFINITY, -INFINITY},
                                                {-INFINITY, 0, 0.0f},
                                                {-0.0f, 0.0f, -1},
                                                {INFINITY, kNan, 0}};
  for (std::size_t row = 0; row < rows.size(); ++row) {
    for (const std::int32_t label : {0, 1, 2}) {
      const Batch batch{1, 1, 3, rows[row], {label}};
      const Result found = on_device(batch, stream);
      const Result expected = on_cpu(batch);
      SCOPED_TRACE(::testing::Message() << "row " << row << ", label " << label);
      EXPECT_EQ(found.losses[0].num_correct, expected.losses[0].num_correct);
      EXPECT_EQ(std::isfinite(found.losses[0].entropy_loss), std::isfinite(expected.losses[0].entropy_loss));
      for (std::size_t j = 0; j < 3; ++j)
        EXPECT_EQ(std::isfinite(found.gradient[j]), std::isfinite(expected.gradient[j]));
    }
  }
}

TEST_F(CudaSoftmaxCrossEntropy, ALabelOutOfRangeShowsInItsWorkerAlone) {
  Stream stream(Device::cuda());
  for (const int classes : {10, 200}) {
    for (const std::int32_t label :
         {-1, classes, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}) {
      Batch batch = make_batch(3, 2, classes);
      const Result good = on_device(batch, stream);
      const std::int32_t before = batch.labels.back();
      const bool was_correct =
          on_device({1, 1, classes, {batch.logits.end() - classes, batch.logits.end()}, {before}}, stream)
              .losses[0]
              .num_correct == 1;
      batch.labels.back() = label;
      const Result found = on_device(batch, stream);
      EXPECT_TRUE(std::isnan(found.losses[1].entropy_loss));
      EXPECT_EQ(found.losses[1].num_correct, good.losses[1].num_correct - (was_correct ? 1 : 0));
      EXPECT_EQ(found.losses[0].entropy_loss, good.losses[0].entropy_loss);
      for (std::size_t i = 0; i < found.gradient.size(); ++i) {
        if (i / static_cast<std::size_t>(classes) == 5) {
          ASSERT_TRUE(std::isnan(found.gradient[i])) << i;
        } else {
          ASSERT_EQ(found.gradient[i], good.gradient[i]) << i;
        }
      }
    }
  }
}

TEST_F(CudaSoftmaxCrossEntropy, RefusesWhatHasNoMean) {
  Stream stream(Device::cuda());
  EXPECT_THROW(softmax_cross_entropy(nullptr, nullptr, 0, 1, 10, nullptr, nullptr, nullptr, stream), InvalidArgument);
  EXPECT_THROW(softmax_cross_entropy(nullptr, nullptr, 1, 1, 0, nullptr, nullptr, nullptr, stream), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda::softmax_cross_entropy_test
