#include "nets/cpu/cpu_net.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "nets/cpu/slice_runner.h"
#include "nets/pass_memory.h"
#include "nets/planned_net.h"

namespace terngrad::cpu {
namespace {

class CpuNet final : public PlannedNet<Net> {
 public:
  CpuNet(NetPlan plan, const NetOptions& options)
      : PlannedNet(std::move(plan)),
        options_(options),
        engine_(dnnl_call("make engine", [] { return dnnl::engine(dnnl::engine::kind::cpu, 0); })) {
    // Nested parallel regions have one thread only, so slices with several threads run sequentially.
    const int num_slots = options.threads_per_worker > 1 ? 1 : std::min(options.num_threads, options.num_local_workers);
    const LibraryThreads threads(options.threads_per_worker);
    for (int slot = 0; slot < num_slots; ++slot) {
      slots_.push_back(std::make_unique<SliceRunner>(engine_, this->plan(), options.examples_per_worker,
                                                     options.threads_per_worker, Mode::kTraining, options.loss));
    }
  }

  bool writes_logits() const override { return true; }

  void compute_gradients(std::span<const float> parameters, const TrainBatch& batch, std::span<float* const> gradients,
                         std::span<WorkerLoss> losses, const SegmentReady& on_segment_ready) override {
    const int num_workers = options_.num_local_workers;
    const std::int64_t examples = options_.examples_per_worker;
    check_gradients(plan(), options_, parameters, batch, gradients, losses);
    run_slots(slots_, options_.threads_per_worker, parameters, num_workers, [&](SliceRunner& runner, int worker) {
      const auto w = static_cast<std::size_t>(worker);
      const auto announce = [&, worker](int segment) { on_segment_ready(worker, segment); };
      const Pass pass{.seed = options_.seed,
                      .step = batch.step,
                      .worker = static_cast<std::uint32_t>(options_.first_local_worker + worker),
                      .training_state = batch.states.empty() ? nullptr : batch.states[w]};
      const auto count = static_cast<std::size_t>(examples);
      const auto num_logits = count * static_cast<std::size_t>(num_classes());
      losses[w] = runner.compute_gradient(
          pass, batch.images.data() + worker * examples * plan().image.num_elements(),
          batch.labels.subspan(w * count, count), gradients[w],
          on_segment_ready ? std::function<void(int)>(announce) : std::function<void(int)>(),
          batch.logits.empty() ? batch.logits : batch.logits.subspan(w * num_logits, num_logits));
    });
  }

  void predict(std::span<const float> parameters, std::span<const float> state, std::span<const float> images,
               int num_examples, std::span<float> logits) override {
    check_predict(plan(), parameters, state, images, num_examples, logits);
    const int num_chunks = (num_examples + kCpuPredictExamples - 1) / kCpuPredictExamples;
    make_predictors(num_chunks);
    run_slots(predictors_, 1, parameters, num_chunks, [&](SliceRunner& runner, int chunk) {
      predict_chunk(runner, state, images, logits, std::int64_t{chunk} * kCpuPredictExamples, num_examples);
    });
  }

 private:
  using Slots = std::vector<std::unique_ptr<SliceRunner>>;

  /// Calls body(runner, task) for every task; free slots take the next task. Results do not depend on the slot.
  template <class Body>
  static void run_slots(const Slots& slots, int threads_per_slot, std::span<const float> parameters, int num_tasks,
                        Body&& body) {
    std::atomic<int> next_task = 0;
    const auto num_slots = static_cast<std::int64_t>(std::min(slots.size(), static_cast<std::size_t>(num_tasks)));
    parallel_for(static_cast<int>(num_slots), num_slots, 1, [&](std::int64_t begin, std::int64_t end) {
      const LibraryThreads threads(threads_per_slot);
      for (std::int64_t slot = begin; slot < end; ++slot) {
        SliceRunner& runner = *slots[static_cast<std::size_t>(slot)];
        runner.set_parameters(parameters.data());
        for (int task = next_task++; task < num_tasks; task = next_task++) body(runner, task);
      }
    });
  }

  void make_predictors(int num_chunks) {
    const LibraryThreads threads(1);
    const auto wanted = static_cast<std::size_t>(std::min(num_chunks, options_.num_threads));
    while (predictors_.size() < wanted) {
      predictors_.push_back(std::make_unique<SliceRunner>(engine_, plan(), kCpuPredictExamples, 1, Mode::kInference));
    }
    if (padded_images_.num_elements() == 0) {
      padded_images_ = zeros<float>(kCpuPredictExamples * plan().image.num_elements());
    }
  }

  void predict_chunk(SliceRunner& runner, std::span<const float> state, std::span<const float> images,
                     std::span<float> logits, std::int64_t first, int num_examples) {
    const std::int64_t count = std::min<std::int64_t>(kCpuPredictExamples, num_examples - first);
    const float* source = images.data() + first * plan().image.num_elements();
    if (count < kCpuPredictExamples) {
      std::copy_n(source, count * plan().image.num_elements(), padded_images_.data());
      source = padded_images_.data();
    }
    const std::span<const float> result = runner.forward({.state = state.data()}, source);
    std::copy_n(result.begin(), count * plan().num_classes, logits.begin() + first * plan().num_classes);
  }

  NetOptions options_;
  dnnl::engine engine_;
  Slots slots_;
  Slots predictors_;             // created by the first predict
  Buffer<float> padded_images_;  // the last chunk, padded
};

}  // namespace

std::unique_ptr<Net> make_net(NetPlan plan, const NetOptions& options) {
  check_workers(options);
  const auto require = [](const char* name, int value) {
    TERNGRAD_REQUIRE(value >= 1, "[make_net] ", name, " must be at least 1, is ", value);
  };
  require("threads_per_worker", options.threads_per_worker);
  require("num_threads", options.num_threads);
  TERNGRAD_REQUIRE(options.threads_per_worker <= options.num_threads, "[make_net] threads_per_worker must be at most ",
                   "num_threads, ", options.num_threads, "; it is ", options.threads_per_worker);
  TERNGRAD_REQUIRE(!options.loss || plan.label_smoothing == 0, "[make_net] the net ", plan.name,
                   " smooths its labels by ", plan.label_smoothing, ", which only softmax cross-entropy does: set ",
                   "NetSpec::label_smoothing to 0 with a loss of your own");
  return std::make_unique<CpuNet>(std::move(plan), options);
}

}  // namespace terngrad::cpu
