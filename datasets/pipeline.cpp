#include "datasets/pipeline.h"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "datasets/batch_order.h"
#include "datasets/shuffle.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

void check_pipeline_options(const Dataset* dataset, const PipelineOptions& options) {
  TERNGRAD_REQUIRE(dataset != nullptr, "[Pipeline] needs a data set");
  TERNGRAD_REQUIRE(dataset->num_examples() >= 1 && dataset->num_examples() <= kMaxShuffledExamples,
                   "[Pipeline] data set ", dataset->name(), " must have 1 to ", kMaxShuffledExamples, " examples, has ",
                   dataset->num_examples());
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[Pipeline] num_workers must be at least 1, got ", options.num_workers);
  TERNGRAD_REQUIRE(options.batch_size >= 1 && options.batch_size % options.num_workers == 0,
                   "[Pipeline] batch_size must be a positive multiple of num_workers = ", options.num_workers, ", got ",
                   options.batch_size);
  TERNGRAD_REQUIRE(options.first_local_worker >= 0 && options.num_local_workers >= 1 &&
                       options.num_local_workers <= options.num_workers - options.first_local_worker,
                   "[Pipeline] local workers must lie in [0, ", options.num_workers, "), got ",
                   options.num_local_workers, " from worker ", options.first_local_worker);
  TERNGRAD_REQUIRE(options.first_step >> 40 == 0, "[Pipeline] first_step must be below 2^40, got ", options.first_step);
  TERNGRAD_REQUIRE(options.num_threads >= 1, "[Pipeline] num_threads must be at least 1, got ", options.num_threads);
  TERNGRAD_REQUIRE(options.prefetch_batches >= 1, "[Pipeline] prefetch_batches must be at least 1, got ",
                   options.prefetch_batches);
}

/// A ring of prefetch_batches + 1 slots (one is with the consumer). Step s lives in slot s mod ring size. Threads claim
/// steps in order, wait until the slot's former step has been given back, and prepare one batch each.
class Pipeline::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options)
      : dataset_(std::move(dataset)), options_(options), order_(dataset_.get(), options_) {
    next_claim_ = next_step_ = options_.first_step;
    slots_.resize(static_cast<std::size_t>(options_.prefetch_batches) + 1);
    for (Slot& slot : slots_) {
      slot.images.resize(static_cast<std::size_t>(order_.local_batch() * dataset_->image_elements()));
      slot.labels.resize(static_cast<std::size_t>(order_.local_batch()));
    }
    threads_.reserve(static_cast<std::size_t>(options_.num_threads));
    for (int i = 0; i < options_.num_threads; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { prepare_batches(stop); });
    }
  }

  /// All threads hear of the end before the first is waited for.
  ~Impl() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  PipelineBatch next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(next_step_);
    slot_ready_.wait(lock, [&] { return slot.ready_step == next_step_ + 1; });
    // A failed step stays where it is: asking again fails again.
    if (slot.error) std::rethrow_exception(slot.error);
    return take(slot, std::move(lock));
  }

  std::optional<PipelineBatch> try_next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(next_step_);
    if (slot.ready_step != next_step_ + 1 || slot.error) return std::nullopt;
    return take(slot, std::move(lock));
  }

 private:
  struct Slot {
    std::vector<float> images;
    std::vector<std::int32_t> labels;
    std::uint64_t ready_step = 0;  // 1 + the step whose batch or error it holds; 0 = none yet
    std::exception_ptr error;
  };

  PipelineBatch take(const Slot& slot, std::unique_lock<std::mutex> lock) {
    const std::uint64_t step = next_step_++;
    lock.unlock();
    // Taking step s gives back the slot of step s - 1.
    slot_free_.notify_all();
    return {.step = step, .epoch = order_.epoch(step), .images = slot.images, .labels = slot.labels};
  }

  Slot& slot_of(std::uint64_t step) { return slots_[static_cast<std::size_t>(step % slots_.size())]; }

  /// A slot may be filled for `step` once the consumer is past the step that used it before: step + 1 - ring size must
  /// have been taken, for then the batch before it has been given back.
  bool is_free_for(std::uint64_t step) const { return step + 1 < next_step_ + slots_.size(); }

  void prepare_batches(const std::stop_token& stop) {
    BatchOrder order = order_;
    while (true) {
      std::unique_lock lock(mutex_);
      const std::uint64_t step = next_claim_++;
      if (!slot_free_.wait(lock, stop, [&] { return is_free_for(step); })) return;
      lock.unlock();
      Slot& slot = slot_of(step);
      std::exception_ptr error;
      try {
        if (!fill(slot, step, order, stop)) return;
      } catch (...) {
        error = std::current_exception();
      }
      lock.lock();
      slot.error = error;
      slot.ready_step = step + 1;
      lock.unlock();
      slot_ready_.notify_one();
    }
  }

  /// Prepares the local workers' part of `step`. False if the pipeline was destroyed meanwhile.
  bool fill(Slot& slot, std::uint64_t step, BatchOrder& order, const std::stop_token& stop) const {
    const auto image_elements = static_cast<std::size_t>(dataset_->image_elements());
    for (std::size_t i = 0; i < slot.labels.size(); ++i) {
      if (stop.stop_requested()) return false;
      const OrderedExample example = order.at(step, static_cast<std::int64_t>(i));
      dataset_->read(example.index, {.seed = options_.seed, .epoch = example.epoch},
                     std::span(slot.images).subspan(i * image_elements, image_elements));
      slot.labels[i] = dataset_->label(example.index);
    }
    return true;
  }

  std::shared_ptr<const Dataset> dataset_;
  PipelineOptions options_;
  BatchOrder order_;  // each thread has a copy

  std::mutex mutex_;  // guards what follows; a slot's buffers belong to the thread that claimed or took its step
  std::condition_variable slot_ready_;
  std::condition_variable_any slot_free_;
  std::uint64_t next_claim_ = 0;  // first step that no thread has claimed
  std::uint64_t next_step_ = 0;   // step of the batch that next() returns
  std::vector<Slot> slots_;

  std::vector<std::jthread> threads_;  // last: joined before anything they use goes away
};

Pipeline::Pipeline(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), options)) {}

Pipeline::~Pipeline() = default;

PipelineBatch Pipeline::next() { return impl_->next(); }
std::optional<PipelineBatch> Pipeline::try_next() { return impl_->try_next(); }

}  // namespace terngrad
