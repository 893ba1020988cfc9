#include "bench/train_step.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "compress/exchange/bucket_plan.h"
#include "compress/exchange/device/device_all_reduce.h"
#include "compress/exchange/device/device_bucketed_all_reduce.h"
#include "datasets/device_examples.h"
#include "datasets/sets/constant_images.h"
#include "datasets/transforms/augmentation.h"
#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/philox.h"
#include "trainers/optim/gradient_transform.h"

namespace terngrad::bench {
namespace {

/// What a net is trained with besides its data.
struct Recipe {
  const char* optimizer;
  double weight_decay;
};

Recipe recipe_of(const std::string& net) {
  if (net == "lenet") return {"momentum", 0.0005};
  TERNGRAD_REQUIRE(net == "cifar10_alexnet", "[train step] no recipe for net ", net);
  return {"adam", 0.004};
}

/// Stored images of random pixels that are treated as those of CIFAR-10: a random window, flipped and distorted.
class StoredPictures final : public Dataset {
 public:
  StoredPictures() : pixels_(static_cast<std::size_t>(kImages * kBytes)) {
    const DrawKey key{.seed = 1, .step = 0, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
    for (std::size_t i = 0; i < pixels_.size(); i += 16) {
      const auto words = draw_block(key, i / 16);
      std::memcpy(pixels_.data() + i, words.data(), 16);
    }
  }
  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return kImages; }
  int height() const override { return kCrop; }
  int width() const override { return kCrop; }
  int channels() const override { return kAugmentedChannels; }
  int num_classes() const override { return 10; }
  std::int32_t label(std::int64_t index) const override { return static_cast<std::int32_t>(index % 10); }
  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    standardize_crop(planar(index), kSide, draw_augmentation(visit, index, kSide - kCrop), kCrop, image);
  }
  std::optional<CropSource> crop_source() const override {
    return CropSource{
        .source_size = kSide, .is_augmented = true, .planar = [this](std::int64_t index) { return planar(index); }};
  }

 private:
  static constexpr int kSide = 32;
  static constexpr int kCrop = 24;
  static constexpr std::int64_t kImages = 10'000;
  static constexpr std::int64_t kBytes = std::int64_t{kAugmentedChannels} * kSide * kSide;
  std::span<const std::uint8_t> planar(std::int64_t index) const {
    return std::span(pixels_).subspan(static_cast<std::size_t>(index * kBytes), static_cast<std::size_t>(kBytes));
  }

  std::string name_ = "stored_pictures";
  std::vector<std::uint8_t> pixels_;
};

std::shared_ptr<const Dataset> dataset_of(const std::string& net) {
  if (net == "lenet") return make_constant_images("mnist", 28, 1);
  return std::make_shared<StoredPictures>();
}

std::unique_ptr<DeviceNet> make_net_of(const TrainStepSubject& subject, const Dataset& dataset, const Stream& stream) {
  const NetOptions options{.num_local_workers = subject.num_workers,
                           .examples_per_worker = subject.batch_size / subject.num_workers};
  return make_device_net(subject.net, {dataset.height(), dataset.width(), dataset.channels()}, dataset.num_classes(),
                         options, subject.math, stream);
}

std::unique_ptr<DeviceExamples> make_examples_of(const TrainStepSubject& subject,
                                                 const std::shared_ptr<const Dataset>& dataset, int max_steps,
                                                 const Stream& stream) {
  PipelineOptions options;
  options.batch_size = subject.batch_size;
  options.num_workers = subject.num_workers;
  options.num_local_workers = subject.num_workers;
  return make_device_examples(dataset, options, max_steps, stream);
}

CompressedAllReduceOptions exchange_of(const TrainStepSubject& subject) {
  CompressedAllReduceOptions options;
  options.codecs.codec = "ternary:clip_factor=2.5";
  options.codecs.context.num_workers = subject.num_workers;
  return options;
}

WorkerRange all_workers(int num_workers) { return {.num_workers = num_workers, .num_local_workers = num_workers}; }

}  // namespace

std::unique_ptr<DeviceReplica> make_train_step(const TrainStepSubject& subject, int max_burst) {
  const Stream stream(Device::cuda());
  const std::shared_ptr<const Dataset> dataset = dataset_of(subject.net);
  const Recipe recipe = recipe_of(subject.net);
  DeviceReplicaParts parts;
  parts.num_workers = subject.num_workers;
  parts.net = make_net_of(subject, *dataset, stream);
  parts.examples = make_examples_of(subject, dataset, max_burst, stream);
  const Layout& layout = parts.net->layout();
  parts.exchanges.push_back(std::make_unique<DeviceBucketedAllReduce>(
      layout, all_workers(subject.num_workers), exchange_of(subject), whole_bucket(layout), stream));
  parts.optimizer = make_optimizer(recipe.optimizer, {}, layout.flat_elements(), stream.device());
  parts.transforms.push_back(make_weight_decay(*parts.net, recipe.weight_decay, stream.device()));
  std::vector<float> parameters(static_cast<std::size_t>(layout.flat_elements()));
  parts.net->initialize(1, parameters);
  std::vector<Optimizer::Slot> slots = parts.optimizer->slots();
  std::vector<std::vector<float>> zeros;
  for (Optimizer::Slot& slot : slots) {
    zeros.emplace_back(slot.values.size());
    slot.values = zeros.back();
  }
  auto replica = std::make_unique<DeviceReplica>(std::move(parts), max_burst);
  std::vector<float> average = parameters;
  replica->load({.parameters = parameters, .ema = average, .state_ema = {}, .states = {}, .slots = slots});
  return replica;
}

TrainStepParts::TrainStepParts(const TrainStepSubject& subject, const Stream& stream)
    : stream_(stream),
      num_workers_(subject.num_workers),
      net_(make_net_of(subject, *dataset_of(subject.net), stream)),
      examples_(make_examples_of(subject, dataset_of(subject.net), 1, stream)),
      exchange_(exchange_of(subject)),
      plan_(net_->layout(), exchange_.codecs),
      optimizer_(make_optimizer(recipe_of(subject.net).optimizer, {}, net_->layout().flat_elements(), stream.device())),
      transform_(make_weight_decay(*net_, recipe_of(subject.net).weight_decay, stream.device())),
      parameters_(net_->layout().flat_elements(), stream.device()),
      average_(net_->layout().flat_elements(), stream.device()),
      mean_(net_->layout().flat_elements(), stream.device()),
      gradients_(net_->layout().flat_elements() * subject.num_workers, stream.device()),
      losses_(subject.num_workers, stream.device()),
      counts_(1, stream.device()),
      report_(1, stream.device()),
      skip_(1, stream.device()),
      mean_table_(net_->layout(), mean_.data()) {
  const Layout& layout = net_->layout();
  const CoderSetup setup{.layout = layout,
                         .workers = all_workers(num_workers_),
                         .seed = exchange_.seed,
                         .drops_nonfinite_steps = true,
                         .device = stream.device()};
  payloads_ = make_gathered_payloads(
      {.layout = layout, .plan = plan_, .ranks = {setup.workers}, .rank = 0, .device = stream.device()});
  for (std::size_t g = 0; g < plan_.groups().size(); ++g) {
    const CodecPlan::Group& group = plan_.groups()[g];
    coders_.push_back(group.codec->make_coder(setup, group.segments, payloads_->slots(g)));
  }
  for (int worker = 0; worker < num_workers_; ++worker) {
    gradient_tables_.emplace_back(layout, gradients_.data() + worker * layout.flat_elements());
  }
  std::vector<float> initial(static_cast<std::size_t>(layout.flat_elements()));
  net_->initialize(1, initial);
  copy<float>(initial, parameters_.span(), stream_);
  copy<float>(initial, average_.span(), stream_);
  for (Buffer<float>* buffer : {&mean_, &gradients_}) fill_zero(buffer->span(), stream_);
  fill_zero(counts_.span(), stream_);
  fill_zero(report_.span(), stream_);
  fill_zero(skip_.span(), stream_);
  examples_->prepare(0, 1);
  stream_.synchronize();
}

void TrainStepParts::submit_compute() {
  net_->submit_gradients(parameters_.data(), {.images = examples_->images(), .labels = examples_->labels()},
                         {gradients_.data(), net_->layout().flat_elements()}, losses_.data());
}

void TrainStepParts::submit_transform() {
  transform_->submit(parameters_.data(), {{gradients_.data(), net_->layout().flat_elements()}, num_workers_},
                     whole_range(net_->layout()), counts_.data(), stream_);
}

void TrainStepParts::submit_encode() {
  for (const auto& coder : coders_) coder->measure(gradient_tables_, {}, stream_);
  for (const auto& coder : coders_)
    coder->combine_scalers(report_.data(), skip_.data(), /*stop_latched=*/nullptr, stream_);
  for (const auto& coder : coders_) coder->encode(gradient_tables_, {}, stream_);
}

void TrainStepParts::submit_decode() {
  for (const auto& coder : coders_) {
    coder->aggregate(mean_table_, AggregateUnit::kMean, stream_);
    coder->finish(mean_table_, whole_segments(net_->layout()), {}, stream_);
  }
}

void TrainStepParts::submit_update() {
  // A rate of 0 takes as long as any other.
  optimizer_->update(parameters_.span(), mean_.span(), 0, stream_, {.skip = skip_.data()});
  update_ema(average_.span(), parameters_.span(), 0.9999f, stream_, {.skip = skip_.data()});
}

bool TrainStepParts::mean_is_right() {
  DeviceAllReduce exchange(net_->layout(), all_workers(num_workers_), exchange_, stream_);
  Buffer<float> expected(mean_.num_elements(), stream_.device());
  fill_zero(expected.span(), stream_);
  exchange.exchange(gradient_tables_, TensorTable(net_->layout(), expected.data()), 0);
  std::vector<float> theirs(static_cast<std::size_t>(mean_.num_elements()));
  std::vector<float> ours(theirs.size());
  copy<float>(expected.span(), std::span(theirs), stream_);
  copy<float>(mean_.span(), std::span(ours), stream_);
  stream_.synchronize();
  const bool any = std::ranges::any_of(ours, [](float value) { return value != 0; });
  return any && std::memcmp(ours.data(), theirs.data(), ours.size() * sizeof(float)) == 0;
}

}  // namespace terngrad::bench
