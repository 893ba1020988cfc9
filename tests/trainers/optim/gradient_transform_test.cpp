#include "trainers/optim/gradient_transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/statistics.h"
#include "tests/support/bits.h"
#include "tests/support/gradients.h"
#include "tests/support/reference.h"
#include "tests/support/simd_targets.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad::gradient_transform_test {
namespace {

using testing::bits_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Applies a transform to one worker's whole gradient.
TransformCounts apply(GradientTransform& transform, std::span<const float> parameters, std::span<float> gradient,
                      Stream& stream) {
  TransformCounts counts;
  const auto length = static_cast<std::int64_t>(gradient.size());
  transform.submit(parameters.data(), {{gradient.data(), length}, 1}, {0, length}, &counts, stream);
  return counts;
}

TEST(TensorTransform, CallsTheFunctionForEachTensorOfEachWorkerInTheRange) {
  Layout layout;
  layout.add("a", {3});
  layout.add("b", {20});
  layout.add("c", {2});
  const std::int64_t length = layout.flat_elements();
  std::vector<float> gradients(static_cast<std::size_t>(2 * length));
  const std::vector<float> parameters(static_cast<std::size_t>(length), 0.5f);
  const auto transform = make_tensor_transform(
      "own", layout,
      [](int worker, const Segment& tensor, std::span<const float> its_parameters, std::span<float> gradient) {
        EXPECT_EQ(its_parameters.size(), static_cast<std::size_t>(tensor.num_elements));
        for (float& g : gradient) g += its_parameters[0] + static_cast<float>(worker);
      });
  EXPECT_EQ(transform->name(), "own");
  Stream stream(Device::cpu(), 1);
  TransformCounts counts;
  const WorkerGradients all{{gradients.data(), length}, 2, /*first_worker=*/3};
  const std::vector<int> some = {0, 1};
  transform->submit(parameters.data(), all, ranges_of(layout, some)[0], &counts, stream);
  transform->submit(parameters.data(), all.of_worker(1), range_of(layout.segment(2)), &counts, stream);
  for (int worker = 0; worker < 2; ++worker) {
    for (const Segment& tensor : layout.segments()) {
      const float expected = tensor.name == "c" && worker == 0 ? 0.0f : 3.5f + static_cast<float>(worker);
      const auto* const values = gradients.data() + worker * length + tensor.offset;
      EXPECT_TRUE(std::all_of(values, values + tensor.num_elements, [&](float g) { return g == expected; }));
    }
  }
  EXPECT_THROW(make_tensor_transform("own", layout, {}), InvalidArgument);
}

TEST(WeightDecay, AddsToRegularizedTensorsOnly) {
  const testing::IdentityNet net(5);
  const auto length = static_cast<std::size_t>(net.layout().flat_elements());
  std::vector<float> parameters(length);
  for (const Segment& segment : net.layout().segments()) {
    for (std::int64_t i = segment.offset; i < segment.offset + segment.num_elements; ++i) {
      parameters[static_cast<std::size_t>(i)] = 0.37f * static_cast<float>(i) - 1.1f;
    }
  }
  std::vector<float> gradient(length, 0.25f);
  std::vector<float> expected = gradient;
  const Segment& weights = net.layout().segment(0);
  for (std::int64_t i = weights.offset; i < weights.offset + weights.num_elements; ++i) {
    const volatile float decay = 0.0005f * parameters[static_cast<std::size_t>(i)];
    expected[static_cast<std::size_t>(i)] += decay;
  }
  const auto transform = make_weight_decay(net, 0.0005);
  EXPECT_EQ(transform->name(), "weight_decay");
  Stream stream(Device::cpu(), 2);
  apply(*transform, parameters, gradient, stream);
  // Biases and padding are unchanged.
  EXPECT_EQ(bits_of(gradient), bits_of(expected));
}

TEST(WeightDecay, OfLenetTouchesWeightsAndNoBias) {
  const std::unique_ptr<Net> net = make_net("lenet", {16, 16, 1}, 10, {});
  const auto length = static_cast<std::size_t>(net->layout().flat_elements());
  const std::vector<float> parameters(length, 2.0f);
  std::vector<float> gradient(length, 0.0f);
  Stream stream(Device::cpu(), 1);
  apply(*make_weight_decay(*net, 0.5), parameters, gradient, stream);
  for (const Segment& segment : net->layout().segments()) {
    const float expected = segment.name.ends_with("/biases") ? 0.0f : 1.0f;
    for (std::int64_t i = 0; i < segment.num_elements; ++i) {
      ASSERT_EQ(gradient[static_cast<std::size_t>(segment.offset + i)], expected) << segment.name;
    }
  }
}

TEST(NanToZero, ZeroesAndCounts) {
  const auto transform = make_nan_to_zero();
  EXPECT_EQ(transform->name(), "nan_to_zero");
  Stream stream(Device::cpu(), 1);
  std::vector<float> gradient = {1, kNan, -2, kInf, -kInf, 3e38f};
  const TransformCounts counts = apply(*transform, {}, gradient, stream);
  EXPECT_THAT(gradient, ElementsAre(1, 0, -2, 0, 0, 3e38f));
  EXPECT_EQ(counts.zeroed_elements, 3);
  EXPECT_EQ(counts.clipped_gradients, 0);
  EXPECT_EQ(apply(*transform, {}, gradient, stream).zeroed_elements, 0);
}

/// Two tensors, the first with several chunks and a ragged end, with gradient.
struct TwoTensors {
  TwoTensors() {
    layout.add("a", {9001});
    layout.add("b", {77});
    gradient.resize(static_cast<std::size_t>(layout.flat_elements()));
    for (int index = 0; index < 2; ++index) {
      const Segment& segment = layout.segment(index);
      const std::vector<float> values = testing::gaussian(static_cast<std::size_t>(segment.num_elements), 1);
      std::ranges::copy(values, gradient.begin() + segment.offset);
    }
  }
  double norm() const {
    double sum = 0;
    for (int index = 0; index < 2; ++index) {
      const Segment& segment = layout.segment(index);
      sum += reference::statistics(std::span(gradient).subspan(static_cast<std::size_t>(segment.offset),
                                                               static_cast<std::size_t>(segment.num_elements)))
                 .sum_squares;
    }
    return std::sqrt(sum);
  }
  Layout layout;
  std::vector<float> gradient;
};

TEST(ClipByGlobalNorm, ShortensToTheNormWithTheSameBitsEverywhere) {
  const TwoTensors original;
  const double norm = original.norm();
  for (const double max_norm : {norm / 3, norm * 0.999, 1e-3}) {
    std::vector<std::uint32_t> want;
    const auto factor = static_cast<float>(max_norm / norm);
    for (const float value : original.gradient) {
      const float scaled = factor * value;
      want.push_back(bits_of(scaled));
    }
    testing::for_each_target([&](const std::string& target) {
      for (const int threads : {1, 3}) {
        TwoTensors clipped;
        Stream stream(Device::cpu(), threads);
        const auto transform = make_clip_by_global_norm(clipped.layout, max_norm, 1);
        EXPECT_EQ(apply(*transform, {}, clipped.gradient, stream).clipped_gradients, 1);
        EXPECT_EQ(bits_of(clipped.gradient), want) << target << threads;
        EXPECT_NEAR(clipped.norm(), max_norm, 1e-6 * max_norm);
      }
    });
  }
}

TEST(ClipByGlobalNorm, LeavesShorterGradientsAlone) {
  const TwoTensors original;
  Stream stream(Device::cpu(), 1);
  for (const double max_norm : {original.norm(), original.norm() * 1.001, 1e300}) {
    TwoTensors same;
    const auto transform = make_clip_by_global_norm(same.layout, max_norm, 1);
    EXPECT_EQ(apply(*transform, {}, same.gradient, stream).clipped_gradients, 0);
    EXPECT_EQ(bits_of(same.gradient), bits_of(original.gradient));
  }
  std::vector<float> zeros(original.gradient.size(), 0.0f);
  EXPECT_EQ(apply(*make_clip_by_global_norm(original.layout, 1, 1), {}, zeros, stream).clipped_gradients, 0);
  EXPECT_EQ(bits_of(zeros), std::vector<std::uint32_t>(zeros.size(), 0));
}

TEST(ClipByGlobalNorm, HugeGradientsKeepTheirDirection) {
  // The squares of these elements overflow fp32, but not fp64.
  Layout layout;
  layout.add("a", {2});
  std::vector<float> gradient(static_cast<std::size_t>(layout.flat_elements()), 0.0f);
  gradient[0] = 3e30f;
  gradient[1] = -4e30f;
  Stream stream(Device::cpu(), 1);
  EXPECT_EQ(apply(*make_clip_by_global_norm(layout, 10, 1), {}, gradient, stream).clipped_gradients, 1);
  EXPECT_NEAR(gradient[0], 6, 1e-5);
  EXPECT_NEAR(gradient[1], -8, 1e-5);
}

TEST(ClipByGlobalNorm, LeavesNonfiniteGradientsToTheExchange) {
  for (const float bad : {kNan, kInf, -kInf}) {
    TwoTensors tensors;
    tensors.gradient[5] = bad;
    const std::vector<std::uint32_t> before = bits_of(tensors.gradient);
    Stream stream(Device::cpu(), 1);
    const auto transform = make_clip_by_global_norm(tensors.layout, 1e-3, 1);
    EXPECT_EQ(transform->name(), "clip_by_global_norm");
    EXPECT_EQ(apply(*transform, {}, tensors.gradient, stream).clipped_gradients, 0);
    EXPECT_EQ(bits_of(tensors.gradient), before);
  }
}

TEST(ClipByGlobalNorm, ClipsTheOtherTensorsWhereNonfiniteOnesCountAsZero) {
  for (const float bad : {kNan, kInf, -kInf}) {
    TwoTensors tensors;
    const Segment& spoilt = tensors.layout.segment(0);
    const Segment& good = tensors.layout.segment(1);
    const auto first = static_cast<std::size_t>(good.offset);
    const auto values = std::span(tensors.gradient).subspan(first, static_cast<std::size_t>(good.num_elements));
    const double norm = std::sqrt(reference::statistics(values).sum_squares);
    std::vector<std::uint32_t> want;
    const auto factor = static_cast<float>(0.5 * norm / norm);
    for (const float value : values) {
      const float scaled = factor * value;
      want.push_back(bits_of(scaled));
    }
    tensors.gradient[static_cast<std::size_t>(spoilt.offset) + 5] = bad;
    Stream stream(Device::cpu(), 1);
    const auto transform = make_clip_by_global_norm(tensors.layout, 0.5 * norm, 1, OnNonfinite::kZero);
    EXPECT_EQ(apply(*transform, {}, tensors.gradient, stream).clipped_gradients, 1);
    EXPECT_EQ(bits_of(values), want);
    // The exchange must still detect it.
    EXPECT_FALSE(std::isfinite(tensors.gradient[static_cast<std::size_t>(spoilt.offset) + 5]));
  }
}

TEST(ClipByGlobalNorm, NormMustBeAboveZero) {
  const TwoTensors tensors;
  for (const double norm : {0.0, -1.0, std::nan("")}) {
    EXPECT_THAT(message_of<InvalidArgument>([&] { make_clip_by_global_norm(tensors.layout, norm, 1); }),
                HasSubstr("above 0"));
  }
}

TEST(Transforms, TensorByTensorIsTheWhole) {
  const auto net = make_net("lenet", {16, 16, 1}, 10, {});
  const Layout& layout = net->layout();
  Stream stream(Device::cpu(), 1);
  std::vector<float> parameters(static_cast<std::size_t>(layout.flat_elements()));
  std::vector<float> whole(parameters.size());
  for (std::size_t i = 0; i < whole.size(); ++i) {
    parameters[i] = static_cast<float>(i % 17) - 8;
    whole[i] = i % 1000 == 3 ? kNan : static_cast<float>(i % 13) - 6;
  }
  std::vector<float> parts = whole;
  for (const auto& transform : {make_nan_to_zero(), make_weight_decay(*net, 0.25)}) {
    ASSERT_TRUE(transform->is_per_tensor());
    const TransformCounts counts = apply(*transform, parameters, whole, stream);
    TransformCounts sum;
    for (const int segment : net->gradient_order()) {
      transform->submit(parameters.data(), {{parts.data(), layout.flat_elements()}, 1},
                        range_of(layout.segment(segment)), &sum, stream);
    }
    EXPECT_EQ(sum.zeroed_elements, counts.zeroed_elements);
    EXPECT_EQ(bits_of(whole), bits_of(parts)) << transform->name();
  }
  const auto clip = make_clip_by_global_norm(layout, 1, 1);
  EXPECT_FALSE(clip->is_per_tensor());
  TransformCounts counts;
  const WorkerGradients one{{whole.data(), layout.flat_elements()}, 1};
  EXPECT_THROW(clip->submit(nullptr, one, range_of(layout.segment(0)), &counts, stream), InvalidArgument);
  const WorkerGradients two{{whole.data(), 0}, 2};
  EXPECT_THROW(clip->submit(nullptr, two, whole_range(layout), &counts, stream), InvalidArgument);
}

/// Sets the first worker + 1 elements of each worker's gradient to NaN.
class Spoil final : public GradientTransform {
 public:
  std::string name() const override { return "spoil"; }
  bool is_per_tensor() const override { return false; }
  void submit(const float*, const WorkerGradients& gradients, const FlatRange&, TransformCounts*, Stream&) override {
    for (int worker = 0; worker < gradients.num_workers; ++worker) {
      std::fill_n(gradients.buffers.of(worker), worker + 1, kNan);
    }
  }
};

/// The result for one worker depends neither on other workers nor on threads.
TEST(Transforms, WorkersAreChangedEachByItself) {
  const auto net = make_net("lenet", {16, 16, 1}, 10, {});
  const Layout& layout = net->layout();
  const auto length = static_cast<std::size_t>(layout.flat_elements());
  constexpr int kWorkers = 5;
  std::vector<float> parameters(length);
  std::vector<float> gradients(length * kWorkers);
  for (const Segment& segment : layout.segments()) {
    for (std::int64_t i = segment.offset; i < segment.offset + segment.num_elements; ++i) {
      const auto at = static_cast<std::size_t>(i);
      parameters[at] = static_cast<float>(i % 17) - 8;
      for (std::size_t w = 0; w < kWorkers; ++w) {
        gradients[w * length + at] =
            i % 1000 == 3 ? kInf : static_cast<float>(w + 1) * (static_cast<float>(i % 13) - 6);
      }
    }
  }
  const auto transforms_for = [&](int num_workers) {
    std::vector<std::unique_ptr<GradientTransform>> transforms;
    transforms.push_back(make_nan_to_zero());
    transforms.push_back(make_weight_decay(*net, 0.25));
    transforms.push_back(make_clip_by_global_norm(layout, 7000, num_workers));
    return transforms;
  };
  std::vector<float> expected = gradients;
  TransformCounts expected_counts;
  Stream one_thread(Device::cpu(), 1);
  for (std::size_t w = 0; w < kWorkers; ++w) {
    for (const auto& transform : transforms_for(1)) {
      expected_counts += apply(*transform, parameters, std::span(expected).subspan(w * length, length), one_thread);
    }
  }
  EXPECT_GT(expected_counts.clipped_gradients, 0);
  EXPECT_LT(expected_counts.clipped_gradients, kWorkers);
  for (const int threads : {1, 3, 8}) {
    std::vector<float> together = gradients;
    TransformCounts counts;
    Stream stream(Device::cpu(), threads);
    for (const auto& transform : transforms_for(kWorkers)) {
      transform->submit(parameters.data(), {{together.data(), layout.flat_elements()}, kWorkers}, whole_range(layout),
                        &counts, stream);
    }
    EXPECT_EQ(bits_of(together), bits_of(expected)) << threads;
    EXPECT_EQ(counts.zeroed_elements, expected_counts.zeroed_elements);
    EXPECT_EQ(counts.clipped_gradients, expected_counts.clipped_gradients);
  }
}

TEST(Transforms, CountsReachTheHooksSummedOverWorkers) {
  for (const int threads : {1, 4}) {
    testing::SmallRun run{.num_workers = 4, .num_threads = threads};
    run.transforms = [](const Net& net) {
      std::vector<std::unique_ptr<GradientTransform>> transforms;
      transforms.push_back(std::make_unique<Spoil>());
      transforms.push_back(make_nan_to_zero());
      transforms.push_back(make_clip_by_global_norm(net.layout(), 1e-6, 4));
      return transforms;
    };
    const auto trainer = testing::make_small_trainer(run);
    std::vector<TransformCounts> seen;
    trainer->add_hook(every_steps(1, [&](const TrainingView&, const StepView& step) {
      seen.push_back(step.transform_counts);
      return HookVerdict::kContinue;
    }));
    EXPECT_EQ(trainer->run(), 6u);
    ASSERT_EQ(seen.size(), 6u);
    for (const TransformCounts& counts : seen) {
      EXPECT_EQ(counts.zeroed_elements, 1 + 2 + 3 + 4);
      EXPECT_EQ(counts.clipped_gradients, 4);
    }
  }
}

}  // namespace
}  // namespace terngrad::gradient_transform_test
