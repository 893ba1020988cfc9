// Trains a custom net with ternary gradients of four workers and custom hooks, using the installed library. Takes some
// seconds on the built-in data set and prints the accuracy on the test set.
#include <cstdio>
#include <memory>
#include <utility>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/route/wire_bytes.h"
#include "datasets/dataset.h"
#include "kernels/runtime/device.h"
#include "nets/net.h"
#include "trainers/evaluate/evaluate.h"
#include "trainers/loop/host_trainer.h"

namespace {

constexpr int kWorkers = 4;
constexpr int kBatch = 64;
constexpr std::uint64_t kSteps = 300;

/// Two strided convolutions with batch normalization, then dropout before the logits.
terngrad::NetSpec own_net() {
  using namespace terngrad;
  const auto convolution = [](int num_outputs) {
    return ConvolutionSpec{.num_outputs = num_outputs,
                           .kernel = 3,
                           .stride = 2,
                           .weights = Initializer::truncated_normal(0.1f),
                           .biases = std::nullopt};  // batch norm has beta instead
  };
  const BatchNormSpec normalization{.decay = 0.99f, .activation = Activation::kRelu};
  return {"own_net",
          {{"conv1", convolution(16)},
           {"norm1", normalization},
           {"conv2", convolution(32)},
           {"norm2", normalization},
           {"dropout", DropoutSpec{.keep_prob = 0.8f}},
           {"logits",
            FullyConnectedSpec{.weights = Initializer::truncated_normal(0.05f), .biases = Initializer::constant(0)}}}};
}

/// Stops the run once the loss, averaged over about 50 steps, is low enough.
class StopAtLoss final : public terngrad::Hook {
 public:
  explicit StopAtLoss(double loss) : loss_(loss) {}
  terngrad::HookVerdict after_step(const terngrad::TrainingView&, const terngrad::StepView& step) override {
    average_ += (step.loss - average_) / 50;
    return average_ < loss_ ? terngrad::HookVerdict::kStop : terngrad::HookVerdict::kContinue;
  }

 private:
  double loss_;
  double average_ = 2.3;  // loss of guessing among ten classes
};

std::unique_ptr<terngrad::Trainer> make_trainer() {
  using namespace terngrad;
  TrainerParts parts;
  parts.dataset = make_dataset("synthetic", {});
  parts.workers = make_worker_group(kWorkers, make_self_communicator());
  NetOptions net;
  net.num_local_workers = kWorkers;
  net.examples_per_worker = kBatch / kWorkers;
  net.num_threads = num_hardware_threads();
  const Dataset& images = *parts.dataset;
  parts.net = make_net(own_net(), {images.height(), images.width(), images.channels()}, images.num_classes(), net);
  const Layout& layout = parts.net->layout();
  CompressedAllReduceOptions exchange;
  exchange.codecs.codec = "ternary:clip_factor=2.5";
  parts.exchanges.push_back(std::make_unique<CompressedAllReduce>(layout, parts.workers, exchange));
  parts.optimizer = make_optimizer("momentum", {.momentum = 0.9}, layout.flat_elements());
  parts.schedule = {.kind = ScheduleKind::kPolynomial, .initial_rate = 0.05, .total_steps = kSteps};
  TrainerOptions options;
  options.batch_size = kBatch;
  options.total_steps = kSteps;
  options.num_threads = num_hardware_threads();
  return std::make_unique<HostTrainer>(std::move(parts), options);
}

}  // namespace

int main() {
  using namespace terngrad;
  const std::unique_ptr<Trainer> trainer = make_trainer();
  trainer->add_hook(every_steps(50, [](const TrainingView& training, const StepView& step) {
    const TensorTelemetry sent = step.telemetry(2);  // tensors are in the order of layers: conv2's weights
    std::printf("step %3d loss %.3f accuracy %.2f, each worker sent %.1f kB, %.0f %% of conv2 as zeros\n",
                static_cast<int>(training.steps_done), step.loss, step.accuracy,
                bytes_per_worker(step.report).sent * 1e-3, 100 * sent.zero_fraction);
    return HookVerdict::kContinue;
  }));
  trainer->add_hook(std::make_unique<StopAtLoss>(0.15));
  const std::uint64_t steps = trainer->run();

  DatasetOptions test;
  test.subset = Subset::kTest;
  // Moving averages lag in so short a run: evaluate the raw weights with the first worker's moving statistics.
  const Evaluation evaluation = evaluate(trainer->net(), trainer->parameters(), trainer->state(0),
                                         *make_dataset("synthetic", test), {.num_threads = num_hardware_threads()});
  std::printf("after %d steps: %s\n", static_cast<int>(steps), to_string(evaluation).c_str());
  return evaluation.top1 > 0.9 ? 0 : 1;
}
