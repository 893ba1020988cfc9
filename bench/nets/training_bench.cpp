// Training of a whole net on one batch: the gradients of all workers alone, and whole steps with the exchange of fp32
// gradients and a momentum update. Data are made up and stay in memory: reading and augmenting them is not included.
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/gradients.h"
#include "bench/rows.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "kernels/optimizer/optimizer.h"
#include "nets/net.h"

namespace terngrad::bench {
namespace {

constexpr int kClasses = 10;

/// A net as the original trains it.
struct Recipe {
  const char* net;
  ImageShape image;
  int batch;
};

/// One worker uses all threads for its slice; of several, each uses one.
struct Split {
  int num_workers;
  int num_threads;
};

class Training {
 public:
  Training(const Recipe& recipe, const Split& split) : split_(split) {
    net_ = make_net(recipe.net, recipe.image, kClasses,
                    {.num_local_workers = split.num_workers,
                     .examples_per_worker = recipe.batch / split.num_workers,
                     .threads_per_worker = split.num_workers == 1 ? split.num_threads : 1,
                     .num_threads = split.num_threads});
    const Layout& layout = net_->layout();
    images_ = make_gradient(recipe.batch * recipe.image.num_elements(), 40);
    for (float& pixel : images_.span()) pixel *= 100;  // standard normal
    for (int n = 0; n < recipe.batch; ++n) labels_.push_back(n % kClasses);
    parameters_ = zeros<float>(layout.flat_elements());
    net_->initialize(1, parameters_.span());
    momentum_ = zeros<float>(layout.flat_elements());
    mean_ = zeros<float>(layout.flat_elements());
    for (int worker = 0; worker < split.num_workers; ++worker) {
      gradients_.push_back(zeros<float>(layout.flat_elements()));
      pointers_.push_back(gradients_.back().data());
      tables_.emplace_back(layout, gradients_.back().data());
    }
    losses_.resize(pointers_.size());
    CompressedAllReduceOptions options;
    options.codecs.codec = "fp32";
    options.num_threads = split.num_threads;
    exchange_ = std::make_unique<CompressedAllReduce>(
        layout, make_worker_group(split.num_workers, make_self_communicator()), options);
  }

  void compute_gradients() {
    net_->compute_gradients(parameters_.span(), {images_.span(), labels_}, pointers_, losses_);
  }

  void step(Stream& stream) {
    compute_gradients();
    std::span<const float> gradient = gradients_[0].span();
    if (split_.num_workers > 1) {
      exchange_->exchange(tables_, TensorTable(net_->layout(), mean_.data()), ++num_steps_);
      gradient = mean_.span();
    }
    update_momentum(parameters_.span(), momentum_.span(), gradient, 0.01f, 0.9f, stream);
  }

  double loss() const {
    double sum = 0;
    for (const WorkerLoss& loss : losses_) sum += loss.entropy_loss;
    return sum / static_cast<double>(losses_.size());
  }

  /// A batch that is trained on again and again is learnt.
  bool learns() {
    compute_gradients();
    const double before = loss();
    Stream stream(Device::cpu(), split_.num_threads);
    for (int i = 0; i < 5; ++i) step(stream);
    return std::isfinite(before) && loss() < before;
  }

  double gradient_elements() const { return static_cast<double>(net_->layout().num_elements()) * split_.num_workers; }

 private:
  Split split_;
  std::unique_ptr<Net> net_;
  Buffer<float> images_;
  std::vector<std::int32_t> labels_;
  Buffer<float> parameters_;
  Buffer<float> momentum_;
  Buffer<float> mean_;
  std::vector<Buffer<float>> gradients_;
  std::vector<float*> pointers_;
  std::vector<TensorTable> tables_;
  std::vector<WorkerLoss> losses_;
  std::unique_ptr<CompressedAllReduce> exchange_;
  std::uint64_t num_steps_ = 0;
};

Subject training(const Recipe& recipe, const Split& split, bool whole_step) {
  const auto state = std::make_shared<Training>(recipe, split);
  const auto prepare = [=](Stream& stream) {
    const auto run = [=, &stream] { whole_step ? state->step(stream) : state->compute_gradients(); };
    return Work{.run = run, .check = [=] { return state->learns(); }};
  };
  return {.bytes = 4 * state->gradient_elements(),
          .elements = state->gradient_elements(),
          .examples = static_cast<double>(recipe.batch),
          .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  constexpr std::int64_t kReadElements = 1 << 22;  // 15 rounds
  for (const Recipe& recipe : {Recipe{"lenet", {28, 28, 1}, 64}, Recipe{"cifar10_alexnet", {24, 24, 3}, 128}}) {
    for (const int workers : {1, 8}) {
      for (const int threads : thread_counts()) {
        for (const bool whole_step : {false, true}) {
          const std::string name = std::string(whole_step ? "training_step/" : "net_gradients/") + recipe.net +
                                   "/batch:" + std::to_string(recipe.batch) + "/workers:" + std::to_string(workers) +
                                   "/threads:" + std::to_string(threads);
          rows.cpu.push_back({name, kReadElements, threads, [=] {
                                return training(recipe, {workers, threads}, whole_step);
                              }});
        }
      }
    }
  }
});

}  // namespace
}  // namespace terngrad::bench
