// Small data sets, a net whose logits are its input, and trainers, for tests of training.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "datasets/dataset.h"
#include "datasets/sets/grey_images.h"
#include "datasets/sets/synthetic.h"
#include "nets/models/lenet.h"
#include "nets/net.h"
#include "tests/support/bits.h"
#include "trainers/loop/host_trainer.h"

namespace terngrad::testing {

/// Data set of given images (one row of floats each) and labels.
class RowDataset : public Dataset {
 public:
  RowDataset(std::vector<std::vector<float>> rows, std::vector<std::int32_t> labels, int num_classes)
      : rows_(std::move(rows)), labels_(std::move(labels)), num_classes_(num_classes) {}
  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return static_cast<std::int64_t>(labels_.size()); }
  int height() const override { return 1; }
  int width() const override { return rows_.empty() ? num_classes_ : static_cast<int>(rows_[0].size()); }
  int channels() const override { return 1; }
  int num_classes() const override { return num_classes_; }
  std::int32_t label(std::int64_t index) const override { return labels_.at(static_cast<std::size_t>(index)); }
  void read(std::int64_t index, const ExampleVisit&, std::span<float> image) const override {
    std::ranges::copy(rows_.at(static_cast<std::size_t>(index)), image.begin());
  }

 private:
  std::string name_ = "rows";
  std::vector<std::vector<float>> rows_;
  std::vector<std::int32_t> labels_;
  int num_classes_;
};

/// A net with logits = image, plus the first parameter for class 0. Two tensors: "a" [2, 3], "b" [5].
class IdentityNet final : public Net {
 public:
  explicit IdentityNet(int num_classes) : num_classes_(num_classes) {
    layout_.add("a", {2, 3});
    layout_.add("b", {5}, /*is_logits=*/true);
  }
  const std::string& name() const override { return name_; }
  const Layout& layout() const override { return layout_; }
  const Layout& state_layout() const override { return state_layout_; }
  ImageShape image_shape() const override { return {1, num_classes_, 1}; }
  int num_classes() const override { return num_classes_; }
  bool is_regularized(int segment) const override { return segment == 0; }
  void initialize(std::uint64_t, std::span<float> parameters) const override { std::ranges::fill(parameters, 0.0f); }
  void initialize_state(std::span<float>) const override {}
  void compute_gradients(std::span<const float>, const TrainBatch&, std::span<float* const>, std::span<WorkerLoss>,
                         const SegmentReady&) override {}
  void predict(std::span<const float> parameters, std::span<const float> state, std::span<const float> images,
               int num_examples, std::span<float> logits) override {
    last_state.assign(state.begin(), state.end());
    std::ranges::copy(images, logits.begin());
    for (int i = 0; i < num_examples; ++i) logits[static_cast<std::size_t>(i * num_classes_)] += parameters[0];
    batches.push_back(num_examples);
  }

  std::vector<int> batches;       // sizes of the predict calls
  std::vector<float> last_state;  // state of the last predict call

 private:
  std::string name_ = "identity";
  Layout layout_;
  Layout state_layout_;
  int num_classes_;
};

/// The first `count` synthetic digits, cropped to the middle `size` x `size` pixels.
inline std::shared_ptr<Dataset> small_digits(std::int64_t count, int size) {
  constexpr std::size_t kPixels = std::size_t{kSyntheticImageSize} * kSyntheticImageSize;
  GreyPixels grey;
  grey.height = grey.width = kSyntheticImageSize;
  grey.pixels.resize(static_cast<std::size_t>(count) * kPixels);
  for (std::int64_t i = 0; i < count; ++i) {
    draw_synthetic_digit(1, Subset::kTrain, i,
                         std::span(grey.pixels).subspan(static_cast<std::size_t>(i) * kPixels, kPixels));
    grey.labels.push_back(static_cast<std::uint8_t>(synthetic_label(i)));
  }
  return std::make_shared<GreyImages>("digits", std::move(grey), 10, size);
}

inline constexpr int kSmallImage = 16;

/// LeNet with narrower layers: 20,000 parameters instead of 430,000.
inline NetSpec small_lenet() {
  NetSpec spec = lenet();
  for (LayerSpec& layer : spec.layers) {
    if (auto* const convolution = std::get_if<ConvolutionSpec>(&layer.operation)) {
      convolution->num_outputs = layer.name == "conv1" ? 8 : 16;
    } else if (auto* const full = std::get_if<FullyConnectedSpec>(&layer.operation); full && full->num_outputs > 0) {
      full->num_outputs = 64;
    }
  }
  return spec;
}

/// Codec spec; `ternary_options` apply only to ternary.
inline std::string spec_of(const std::string& codec, const std::string& ternary_options) {
  return codec == "ternary" ? codec + ":" + ternary_options : codec;
}

/// Configuration of a training run on small images.
struct SmallRun {
  int num_workers = 1;
  bool simple = false;  // one worker whose gradient is applied as it is
  std::string codec = "fp32";
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  std::uint64_t total_steps = 6;
  std::int64_t batch_size = 8;
  std::uint64_t seed = 1;
  double learning_rate = 0.01;
  double weight_decay = 0.0005;
  int num_threads = 1;
  int num_data_threads = 1;
  std::function<std::vector<std::unique_ptr<GradientTransform>>(const Net&)> transforms = {};  // after weight decay
  std::shared_ptr<const Dataset> dataset = nullptr;                                            // nullptr: small_digits
  std::shared_ptr<Communicator> communicator = nullptr;                                        // nullptr: one process
  NetSpec net = small_lenet();
  std::uint64_t rebroadcast_steps = 0;
  float mean_factor = 1;
  std::int64_t bucket_bytes = 0;  // 0: one bucket
  bool overlap = false;
  ShardOwners owners = ShardOwners::kWorkers;
  int num_servers = 0;
  bool pulls_parameters = false;
  DownlinkCodec downlink_codec = DownlinkCodec::kFloat32;
  std::string optimizer = "momentum";
  ShuffleOptions shuffle = {};
  Trace* trace = nullptr;
};

/// Serializes the construction of nets in rank threads: oneDNN's locks on shared state are invisible to
/// ThreadSanitizer.
inline std::mutex& net_mutex() {
  static std::mutex mutex;
  return mutex;
}

inline std::unique_ptr<Trainer> make_small_trainer(const SmallRun& run) {
  const std::lock_guard lock(net_mutex());
  static const std::shared_ptr<const Dataset> digits = small_digits(40, kSmallImage);
  TrainerParts parts;
  parts.dataset = run.dataset != nullptr ? run.dataset : digits;
  parts.workers = make_worker_group(
      run.num_workers, run.communicator != nullptr ? run.communicator : make_self_communicator(), run.num_servers);
  NetOptions net;
  net.num_local_workers = std::max(parts.workers.num_local_workers, 1);
  net.first_local_worker = parts.workers.first_local_worker;
  net.examples_per_worker = static_cast<int>(run.batch_size / run.num_workers);
  net.num_threads = run.num_threads;
  net.seed = run.seed;
  parts.net = make_net(run.net, {kSmallImage, kSmallImage, 1}, 10, net);
  const Layout& layout = parts.net->layout();
  parts.schedule = {.kind = ScheduleKind::kPolynomial,
                    .initial_rate = run.learning_rate,
                    .total_steps = static_cast<std::int64_t>(run.total_steps)};
  const auto optimizer_of = [name = run.optimizer](std::int64_t num_elements) {
    return make_optimizer(name, {.momentum = 0.9}, num_elements);
  };
  if (run.pulls_parameters) {
    parts.served = std::make_unique<ServedParameters>(
        layout, parts.workers,
        ServedParametersOptions{.make_optimizer = optimizer_of,
                                .schedule = parts.schedule,
                                .mean_factor = run.mean_factor,
                                .is_rounded = run.downlink_codec == DownlinkCodec::kBfloat16,
                                .num_threads = run.num_threads});
  }
  if (run.simple) {
    CompressedAllReduceOptions unchanged;
    unchanged.codecs.codec = "fp32";
    unchanged.on_nonfinite = run.on_nonfinite;
    parts.exchanges.push_back(std::make_unique<CompressedAllReduce>(layout, parts.workers, unchanged));
  } else {
    CompressedAllReduceOptions exchange;
    exchange.codecs.codec = spec_of(run.codec, "clip_factor=2.5");
    exchange.on_nonfinite = run.on_nonfinite;
    exchange.seed = run.seed;
    exchange.num_threads = run.num_threads;
    exchange.owners = run.owners;
    exchange.update = parts.served.get();
    exchange.mean_factor = run.mean_factor;
    exchange.downlink_codec = run.downlink_codec;
    if (run.bucket_bytes > 0) {
      parts.buckets = plan_buckets(layout, parts.net->gradient_order(), run.bucket_bytes);
    }
    parts.exchanges.push_back(std::make_unique<CompressedAllReduce>(layout, parts.workers, exchange));
  }
  parts.optimizer = optimizer_of(layout.flat_elements());
  if (run.weight_decay > 0) parts.transforms.push_back(make_weight_decay(*parts.net, run.weight_decay));
  if (run.transforms) {
    for (auto& transform : run.transforms(*parts.net)) parts.transforms.push_back(std::move(transform));
  }
  TrainerOptions options;
  options.batch_size = run.batch_size;
  options.total_steps = run.total_steps;
  options.seed = run.seed;
  options.num_threads = run.num_threads;
  options.num_data_threads = run.num_data_threads;
  options.mean_factor = run.mean_factor;
  options.rebroadcast_steps = run.rebroadcast_steps;
  options.overlap = run.overlap;
  options.shuffle = run.shuffle;
  options.trace = run.trace;
  return std::make_unique<HostTrainer>(std::move(parts), options);
}

/// Bits of the parameters and of all other training state.
inline std::vector<std::uint32_t> state_bits(Trainer& trainer) {
  std::vector<std::uint32_t> all = bits_of(trainer.parameters());
  const auto append = [&all](std::span<const float> values) {
    const std::vector<std::uint32_t> bits = bits_of(values);
    all.insert(all.end(), bits.begin(), bits.end());
  };
  append(trainer.ema().shadow());
  for (const Optimizer::Slot& slot : trainer.slots()) append(slot.values);
  for (int worker = 0; worker < trainer.num_local_workers(); ++worker) append(trainer.state(worker));
  append(trainer.state_ema().shadow());
  return all;
}

/// Records the loss of each step.
class LossRecorder final : public Hook {
 public:
  explicit LossRecorder(std::vector<double>& losses) : losses_(losses) {}
  HookVerdict after_step(const TrainingView&, const StepView& step) override {
    losses_.push_back(step.loss);
    return HookVerdict::kContinue;
  }

 private:
  std::vector<double>& losses_;
};

inline std::vector<double> losses_of(const SmallRun& run) {
  std::vector<double> losses;
  const std::unique_ptr<Trainer> trainer = make_small_trainer(run);
  trainer->add_hook(std::make_unique<LossRecorder>(losses));
  trainer->run();
  return losses;
}

}  // namespace terngrad::testing
