// Trains LeNet with ternary gradients of four workers, using the installed library, with images, batches, a loss, a
// loss term, gradients to display, changes between steps and a hook of its own. Takes some seconds; prints the
// accuracy.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <random>
#include <span>

#include "compress/exchange/compressed_all_reduce.h"
#include "datasets/sets/transformed_images.h"
#include "kernels/runtime/device.h"
#include "nets/softmax_cross_entropy.h"
#include "trainers/evaluate/evaluate.h"
#include "trainers/loop/host_trainer.h"
#include "trainers/loop/training_control.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/optimizer.h"

using namespace terngrad;

namespace {

constexpr int kWorkers = 4;
constexpr int kBatch = 64;
constexpr int kClasses = 10;
constexpr std::size_t kSide = 28;

/// Loss: softmax cross-entropy plus 0.0005 |logits|^2, mean over examples.
double bounded_logits(std::span<const float> logits, std::span<const std::int32_t> labels, int num_classes,
                      std::span<float> gradient) {
  double loss = softmax_cross_entropy(logits, labels, num_classes, gradient).entropy_loss;
  const float factor = 0.0005f / static_cast<float>(labels.size());
  for (std::size_t i = 0; i < logits.size(); ++i) {
    loss += factor * logits[i] * logits[i];
    gradient[i] += 2 * factor * logits[i];
  }
  return loss;
}

/// Input transform: blackens a square whose place is drawn from visit and index (DeVries and Taylor, 2017).
void cut_out(std::int64_t index, const ExampleVisit& visit, std::span<float> image) {
  std::seed_seq seed = {visit.epoch, static_cast<std::uint64_t>(index)};
  std::mt19937 draws(seed);
  const std::size_t corner = draws() % (kSide - 8) * kSide + draws() % (kSide - 8);
  for (std::size_t row = 0; row < 8; ++row) std::ranges::fill(image.subspan(corner + row * kSide, 8), image[0]);
}

/// Batches: the first 640 examples for 100 steps, then all, in order.
std::int64_t example_at(std::uint64_t step, std::int64_t place) {
  return (static_cast<std::int64_t>(step) * kBatch + place) % (step < 100 ? 640 : 60000);
}

/// Hook: prints the loss, a gradient before it was clipped, and the example whose label has the smallest logit.
HookVerdict report(const StepView& step, double gradient_norm) {
  const auto logit = [&](std::size_t i) {
    return step.logits[i * kClasses + static_cast<std::size_t>(step.labels[i])];
  };
  std::size_t worst = 0;
  for (std::size_t i = 1; i < step.labels.size(); ++i) worst = logit(i) < logit(worst) ? i : worst;
  const auto image = step.images.subspan(worst * kSide * kSide, kSide * kSide);
  std::printf("step %3d loss %.3f, gradient %.3f; hardest: a %d with logit %.2f and pixels up to %.1f\n",
              static_cast<int>(step.step + 1), step.loss, gradient_norm, step.labels[worst], logit(worst),
              *std::ranges::max_element(image));
  return HookVerdict::kContinue;
}

}  // namespace

int main() {
  TrainerParts parts;
  parts.dataset = transformed_images(make_dataset("synthetic", {}), cut_out, /*is_augmented=*/true);
  parts.workers = make_worker_group(kWorkers, make_self_communicator());
  parts.net = make_net("lenet", {kSide, kSide, 1}, kClasses,
                       {.num_local_workers = kWorkers,
                        .examples_per_worker = kBatch / kWorkers,
                        .num_threads = num_hardware_threads(),
                        .loss = bounded_logits});
  const Layout& layout = parts.net->layout();
  CompressedAllReduceOptions exchange;
  exchange.codecs.codec = "ternary:clip_factor=2.5";
  parts.exchanges.push_back(std::make_unique<CompressedAllReduce>(layout, parts.workers, exchange));
  parts.optimizer = make_optimizer("nadam", {.epsilon = 0.001}, layout.flat_elements());
  parts.schedule = {.initial_rate = 0.002};

  parts.transforms.push_back(make_nan_to_zero());
  // A loss term of the parameters, 0.00001 sum |w|, by its gradient.
  parts.transforms.push_back(make_tensor_transform(
      "lasso", layout, [](int, const Segment&, std::span<const float> parameters, std::span<float> gradient) {
        for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] += std::copysign(0.00001f, parameters[i]);
      }));
  double displayed = 0;  // norm of the gradient of worker 0's logits, before it is clipped
  parts.transforms.push_back(make_tensor_transform(
      "display", layout,
      [&](int worker, const Segment& tensor, std::span<const float>, std::span<const float> gradient) {
        if (worker != 0 || tensor.name != "logits/weights") return;
        displayed = std::sqrt(std::inner_product(gradient.begin(), gradient.end(), gradient.begin(), 0.0));
      }));
  parts.transforms.push_back(make_clip_by_global_norm(layout, /*max_norm=*/10, kWorkers));

  TrainerOptions options{.batch_size = kBatch, .total_steps = 300, .num_threads = num_hardware_threads()};
  options.shuffle.example_at = example_at;
  HostTrainer trainer(std::move(parts), options);
  trainer.add_hook(before_step(0, [](TrainingControl& run) { run.freeze("conv1/*"); }));
  trainer.add_hook(before_step(50, [](TrainingControl& run) {
    run.thaw("conv1/*");
    std::ranges::fill(run.parameters("logits/biases"), 0.0f);
  }));
  trainer.add_hook(every_steps(50, [&](const TrainingView&, const StepView& step) { return report(step, displayed); }));
  trainer.run();

  const auto test_set = make_dataset("synthetic", {.subset = Subset::kTest});
  const Evaluation evaluation =
      evaluate(trainer.net(), trainer.parameters(), {}, *test_set, {.num_threads = num_hardware_threads()});
  std::printf("%s\n", to_string(evaluation).c_str());
  return evaluation.top1 > 0.9 ? 0 : 1;
}
