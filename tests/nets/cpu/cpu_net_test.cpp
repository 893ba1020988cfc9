#include "nets/cpu/cpu_net.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"
#include "tests/nets/reference_net.h"
#include "tests/support/sanitized.h"

namespace terngrad::cpu_cpu_net_test {
namespace {

constexpr ImageShape kImage{12, 12, 1};
constexpr int kClasses = 10;

/// Gradients and losses of `num_workers * examples` fixed examples, one slice per worker.
struct Step {
  std::unique_ptr<Net> net;
  std::vector<Buffer<float>> gradients;
  std::vector<WorkerLoss> losses;

  Step(int num_workers, int examples, int num_threads, int threads_per_worker, int first_worker = 0,
       const SegmentReady& ready = {}, const std::string& name = "lenet") {
    net = make_net(name, kImage, kClasses,
                   {.num_local_workers = num_workers,
                    .examples_per_worker = examples,
                    .threads_per_worker = threads_per_worker,
                    .num_threads = num_threads});
    auto parameters = zeros<float>(net->layout().flat_elements());
    net->initialize(11, parameters.span());
    const auto pixels = static_cast<std::size_t>(kImage.num_elements());
    const auto first = static_cast<std::size_t>(first_worker * examples);
    const auto count = static_cast<std::size_t>(num_workers * examples);
    const auto images = test::random_floats((first + count) * pixels, 5);
    const auto labels = test::cyclic_labels(static_cast<int>(first + count), kClasses);
    std::vector<float*> pointers;
    for (int worker = 0; worker < num_workers; ++worker) {
      gradients.push_back(zeros<float>(net->layout().flat_elements()));
      pointers.push_back(gradients.back().data());
    }
    losses.resize(static_cast<std::size_t>(num_workers));
    net->compute_gradients(
        parameters.span(),
        {.images = std::span(images).subspan(first * pixels), .labels = std::span(labels).subspan(first)}, pointers,
        losses, ready);
  }
};

bool equal_bits(const Buffer<float>& a, const Buffer<float>& b) {
  return a.num_elements() == b.num_elements() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.num_elements()) * sizeof(float)) == 0;
}

/// Expects the gradients of eight workers to be equal when computed together and in parts.
void expect_same_gradients_in_parts(const std::string& net, int examples) {
  const Step together(8, examples, 2, 1, 0, {}, net);
  for (const int workers : {1, 2, 4}) {
    for (int first = 0; first < 8; first += workers) {
      const Step part(workers, examples, 2, 1, first, {}, net);
      for (int w = 0; w < workers; ++w) {
        const auto local = static_cast<std::size_t>(w);
        const auto global = static_cast<std::size_t>(first + w);
        ASSERT_TRUE(equal_bits(part.gradients[local], together.gradients[global]))
            << net << ", worker " << global << " alone among " << workers << ", " << examples << " examples";
        EXPECT_EQ(part.losses[local].entropy_loss, together.losses[global].entropy_loss);
        EXPECT_EQ(part.losses[local].num_correct, together.losses[global].num_correct);
      }
    }
  }
}

TEST(CpuNet, AGradientDoesNotDependOnTheNumberOfLocalWorkers) {
  for (const char* const net : {"lenet", "cifar10_alexnet"}) {
    for (const int examples : testing::few({1, 3, 8})) expect_same_gradients_in_parts(net, examples);
  }
}

TEST(CpuNet, AGradientDoesNotDependOnTheThreadsOfTheProcess) {
  for (const char* const net : {"lenet", "cifar10_alexnet"}) {
    const Step serial(5, 3, 1, 1, 0, {}, net);
    const Step parallel(5, 3, 4, 1, 0, {}, net);
    for (std::size_t w = 0; w < 5; ++w)
      EXPECT_TRUE(equal_bits(serial.gradients[w], parallel.gradients[w])) << net << ", worker " << w;
  }
}

TEST(CpuNet, SlicesOfSeveralThreadsDoNotDependOnTheNumberOfWorkersEither) {
  const Step together(3, 4, 2, 2);
  for (int first = 0; first < 3; ++first) {
    const Step alone(1, 4, 2, 2, first);
    EXPECT_TRUE(equal_bits(alone.gradients[0], together.gradients[static_cast<std::size_t>(first)])) << first;
  }
}

/// All training state after two steps of the branched net.
struct BranchedSteps {
  std::vector<std::vector<float>> gradients;  // per worker, of the last step
  std::vector<std::vector<float>> states;
  std::vector<double> losses;

  BranchedSteps(int num_workers, int num_threads, int threads_per_worker, int first_worker = 0,
                std::uint64_t seed = 9) {
    constexpr ImageShape kShape{9, 8, 4};
    constexpr int kExamples = 3;
    const auto net = make_net(test::branched_net(0.6f), kShape, kClasses,
                              {.num_local_workers = num_workers,
                               .examples_per_worker = kExamples,
                               .threads_per_worker = threads_per_worker,
                               .num_threads = num_threads,
                               .first_local_worker = first_worker,
                               .seed = seed});
    auto parameters = zeros<float>(net->layout().flat_elements());
    net->initialize(11, parameters.span());
    const auto pixels = static_cast<std::size_t>(kExamples * kShape.num_elements());
    const auto first = static_cast<std::size_t>(first_worker);
    const auto count = static_cast<std::size_t>(num_workers);
    gradients.assign(count, std::vector<float>(static_cast<std::size_t>(net->layout().flat_elements())));
    states.assign(count, std::vector<float>(static_cast<std::size_t>(net->state_layout().flat_elements())));
    std::vector<float*> gradient_pointers;
    std::vector<float*> state_pointers;
    for (std::size_t w = 0; w < count; ++w) {
      net->initialize_state(states[w]);
      gradient_pointers.push_back(gradients[w].data());
      state_pointers.push_back(states[w].data());
    }
    const auto labels = test::cyclic_labels(kExamples * (first_worker + num_workers), kClasses);
    std::vector<WorkerLoss> worker_losses(count);
    for (const std::uint64_t step : {6u, 7u}) {
      const auto images = test::random_floats((first + count) * pixels, static_cast<std::uint32_t>(step));
      net->compute_gradients(parameters.span(),
                             {.images = std::span(images).subspan(first * pixels),
                              .labels = std::span(labels).subspan(first * kExamples),
                              .step = step,
                              .states = state_pointers},
                             gradient_pointers, worker_losses);
      for (const WorkerLoss& loss : worker_losses) losses.push_back(loss.entropy_loss);
    }
  }
};

void expect_worker_equal(const BranchedSteps& a, std::size_t worker_a, const BranchedSteps& b, std::size_t worker_b) {
  EXPECT_EQ(a.gradients[worker_a], b.gradients[worker_b]);
  EXPECT_EQ(a.states[worker_a], b.states[worker_b]);
  EXPECT_EQ(a.losses[worker_a], b.losses[worker_b]);
}

TEST(CpuNet, GradientsAndStatesOfAGraphDoNotDependOnTheSplitOfWorkers) {
  const BranchedSteps together(4, 1, 1);
  for (const int num_threads : {1, 2}) {
    for (const int workers : {4, 2, 1}) {
      for (int first = 0; first < 4; first += workers) {
        SCOPED_TRACE(::testing::Message() << workers << " from " << first << ", " << num_threads << " threads");
        const BranchedSteps part(workers, num_threads, 1, first);
        for (int w = 0; w < workers; ++w) {
          expect_worker_equal(part, static_cast<std::size_t>(w), together, static_cast<std::size_t>(first + w));
        }
      }
    }
  }
  EXPECT_NE(together.states[0], together.states[1]);
}

TEST(CpuNet, SeveralThreadsInAWorkerDoNotMakeTheSplitMatterEither) {
  const BranchedSteps together(2, 2, 2);
  for (int first = 0; first < 2; ++first) {
    expect_worker_equal(BranchedSteps(1, 2, 2, first), 0, together, static_cast<std::size_t>(first));
  }
}

TEST(CpuNet, DropoutFollowsTheSeed) {
  const BranchedSteps once(1, 1, 1);
  EXPECT_EQ(BranchedSteps(1, 1, 1).gradients, once.gradients);
  EXPECT_NE(BranchedSteps(1, 1, 1, 0, 10).gradients, once.gradients);
}

TEST(CpuNet, PredictUsesTheStateAndDropsNothing) {
  constexpr ImageShape kShape{9, 8, 4};
  constexpr int kExamples = 35;  // a full chunk and a partial one
  const auto net = make_net(test::branched_net(0.6f), kShape, kClasses, {.num_threads = 2});
  auto parameters = zeros<float>(net->layout().flat_elements());
  net->initialize(11, parameters.span());
  std::vector<float> state(static_cast<std::size_t>(net->state_layout().flat_elements()));
  net->initialize_state(state);
  const auto pixels = static_cast<std::size_t>(kShape.num_elements());
  const auto images = test::random_floats(kExamples * pixels, 8);
  std::vector<float> logits(kExamples * kClasses, NAN);
  net->predict(parameters.span(), state, images, kExamples, logits);
  std::vector<float> one(kClasses, NAN);
  net->predict(parameters.span(), state, std::span(images).subspan(33 * pixels, pixels), 1, one);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), logits.begin() + 33 * kClasses)) << "a logit depends on others";
  state[0] += 1;
  net->predict(parameters.span(), state, std::span(images).subspan(33 * pixels, pixels), 1, one);
  EXPECT_FALSE(std::equal(one.begin(), one.end(), logits.begin() + 33 * kClasses)) << "the state is ignored";
  EXPECT_THROW(net->predict(parameters.span(), {}, images, kExamples, logits), InvalidArgument);
}

TEST(CpuNet, RefusesStatesThatAreMissingAndStepsWithoutDraws) {
  const auto net = make_net(test::branched_net(0.6f), {9, 8, 4}, kClasses, {});
  auto parameters = zeros<float>(net->layout().flat_elements());
  auto gradient = zeros<float>(net->layout().flat_elements());
  auto state = zeros<float>(net->state_layout().flat_elements());
  float* const gradients = gradient.data();
  float* const states = state.data();
  const std::vector<float> images(9 * 8 * 4);
  const std::vector<std::int32_t> labels = {0};
  WorkerLoss loss;
  const auto compute = [&](std::uint64_t step, std::span<float* const> state_pointers) {
    net->compute_gradients(parameters.span(),
                           {.images = images, .labels = labels, .step = step, .states = state_pointers},
                           {&gradients, 1}, {&loss, 1});
  };
  EXPECT_NO_THROW(compute((std::uint64_t{1} << 40) - 1, {&states, 1}));
  EXPECT_THROW(compute(std::uint64_t{1} << 40, {&states, 1}), InvalidArgument);
  EXPECT_THROW(compute(0, {}), InvalidArgument);
  EXPECT_THROW(make_net("lenet", kImage, kClasses, {.first_local_worker = -1}), InvalidArgument);
}

TEST(CpuNet, WorkersWithOtherExamplesHaveOtherGradients) {
  const Step step(2, 3, 1, 1);
  EXPECT_FALSE(equal_bits(step.gradients[0], step.gradients[1]));
}

TEST(CpuNet, RepeatsBitwise) {
  const Step once(2, 8, 2, 2);
  const Step again(2, 8, 2, 2);
  EXPECT_TRUE(equal_bits(once.gradients[1], again.gradients[1]));
}

TEST(CpuNet, AnnouncesEverySegmentOfEveryWorkerOnceInOrder) {
  std::mutex mutex;
  std::vector<std::vector<int>> order(4);
  const Step step(4, 2, 2, 1, 0, [&](int worker, int segment) {
    const std::lock_guard lock(mutex);
    order.at(static_cast<std::size_t>(worker)).push_back(segment);
  });
  for (const auto& segments : order) EXPECT_EQ(segments, (std::vector<int>{6, 7, 4, 5, 2, 3, 0, 1}));
  EXPECT_EQ(step.net->gradient_order(), order[0]);
}

TEST(CpuNet, KnowsTheOrderOfABranchedNetBeforeItRuns) {
  constexpr ImageShape kShape{9, 8, 4};
  const auto net = make_net(test::branched_net(0.6f), kShape, kClasses, {});
  auto parameters = zeros<float>(net->layout().flat_elements());
  auto state = zeros<float>(net->state_layout().flat_elements());
  net->initialize(11, parameters.span());
  net->initialize_state(state.span());
  auto gradient = zeros<float>(net->layout().flat_elements());
  float* const gradients[] = {gradient.data()};
  float* const states[] = {state.data()};
  WorkerLoss loss;
  std::vector<int> order;
  const auto images = test::random_floats(static_cast<std::size_t>(kShape.num_elements()), 5);
  const auto labels = test::cyclic_labels(1, kClasses);
  net->compute_gradients(parameters.span(), {.images = images, .labels = labels, .states = states}, gradients,
                         {&loss, 1}, [&](int, int segment) { order.push_back(segment); });
  EXPECT_EQ(order, net->gradient_order());
  EXPECT_EQ(order.size(), static_cast<std::size_t>(net->layout().num_segments()));
}

TEST(CpuNet, PredictAgreesWithTrainingAndNotWithTheSplit) {
  constexpr int kExamples = 37;  // a full chunk and a partial one
  auto net = make_net("lenet", kImage, kClasses, {.examples_per_worker = kExamples});
  auto wide = make_net("lenet", kImage, kClasses,
                       {.num_local_workers = 8, .examples_per_worker = 2, .threads_per_worker = 2, .num_threads = 4});
  auto parameters = zeros<float>(net->layout().flat_elements());
  net->initialize(3, parameters.span());
  const auto pixels = static_cast<std::size_t>(kImage.num_elements());
  const auto images = test::random_floats(kExamples * pixels, 8);
  const auto labels = test::cyclic_labels(kExamples, kClasses);
  std::vector<float> logits(kExamples * kClasses, NAN);
  net->predict(parameters.span(), {}, images, kExamples, logits);

  auto gradient = zeros<float>(net->layout().flat_elements());
  float* const pointer = gradient.data();
  WorkerLoss loss;
  net->compute_gradients(parameters.span(), {.images = images, .labels = labels}, {&pointer, 1}, {&loss, 1});
  const double predicted_loss = test::reference_loss(test::widen(logits), labels, nullptr);
  EXPECT_NEAR(predicted_loss, loss.entropy_loss, 1e-6);

  std::vector<float> wide_logits(logits.size(), NAN);
  wide->predict(parameters.span(), {}, images, kExamples, wide_logits);
  EXPECT_EQ(wide_logits, logits);
  std::vector<float> one(kClasses, NAN);
  wide->predict(parameters.span(), {}, std::span(images).subspan(35 * pixels, pixels), 1, one);
  EXPECT_TRUE(std::equal(one.begin(), one.end(), logits.begin() + 35 * kClasses)) << "chunks change a logit";
  wide->predict(parameters.span(), {}, {}, 0, {});
}

TEST(CpuNet, RefusesImpossibleOptionsAndSpans) {
  EXPECT_THROW(make_net("lenet", kImage, kClasses, {.num_local_workers = 0}), InvalidArgument);
  EXPECT_THROW(make_net("lenet", kImage, kClasses, {.examples_per_worker = 0}), InvalidArgument);
  EXPECT_THROW(make_net("lenet", kImage, kClasses, {.num_threads = 0}), InvalidArgument);
  EXPECT_THROW(make_net("lenet", kImage, kClasses, {.threads_per_worker = 3, .num_threads = 2}), InvalidArgument);
  auto net = make_net("lenet", kImage, kClasses, {});
  auto parameters = zeros<float>(net->layout().flat_elements());
  std::vector<float> images(static_cast<std::size_t>(kImage.num_elements()));
  std::vector<std::int32_t> labels = {0};
  auto gradient = zeros<float>(net->layout().flat_elements());
  float* const pointer = gradient.data();
  WorkerLoss loss;
  const auto compute = [&](std::span<const float> p, std::span<const float> x, std::span<const std::int32_t> y) {
    net->compute_gradients(p, {.images = x, .labels = y}, {&pointer, 1}, {&loss, 1});
  };
  EXPECT_NO_THROW(compute(parameters.span(), images, labels));
  EXPECT_THROW(compute(parameters.span().subspan(1), images, labels), InvalidArgument);
  EXPECT_THROW(compute(parameters.span(), std::span(images).subspan(1), labels), InvalidArgument);
  EXPECT_THROW(compute(parameters.span(), images, {}), InvalidArgument);
  EXPECT_THROW(net->compute_gradients(parameters.span(), {.images = images, .labels = labels}, {}, {&loss, 1}),
               InvalidArgument);
  labels[0] = kClasses;
  EXPECT_THROW(compute(parameters.span(), images, labels), InvalidArgument);
  labels[0] = -1;
  EXPECT_THROW(compute(parameters.span(), images, labels), InvalidArgument);
  EXPECT_THROW(net->initialize(0, parameters.span().subspan(1)), InvalidArgument);
  EXPECT_THROW(net->predict(parameters.span(), {}, images, 2, {}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cpu_cpu_net_test
