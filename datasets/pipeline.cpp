#include "datasets/pipeline.h"

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "datasets/shuffle.h"
#include "kernels/errors.h"

namespace terngrad {
namespace {

void check_options(const Dataset* dataset, const PipelineOptions& options) {
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

/// The permutation of the epoch asked for last: a thread moves through epochs in order and keeps its own.
class EpochOrder {
 public:
  EpochOrder(std::uint64_t seed, std::int64_t num_examples) : seed_(seed), num_examples_(num_examples) {}

  std::int64_t example(std::uint64_t epoch, std::uint64_t position) {
    if (order_.empty() || epoch != epoch_) {
      epoch_permutation(seed_, epoch, num_examples_, order_);
      epoch_ = epoch;
    }
    return order_[static_cast<std::size_t>(position)];
  }

 private:
  std::uint64_t seed_;
  std::int64_t num_examples_;
  std::uint64_t epoch_ = 0;
  std::vector<std::uint32_t> order_;
};

}  // namespace

/// A ring of prefetch_batches + 1 slots (one is with the consumer). Step s lives in slot s mod ring size. Threads claim
/// steps in order, wait until the slot's former step has been given back, and prepare one batch each.
class Pipeline::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options)
      : dataset_(std::move(dataset)), options_(options) {
    check_options(dataset_.get(), options_);
    slice_size_ = options_.batch_size / options_.num_workers * options_.num_local_workers;
    slice_begin_ = options_.batch_size / options_.num_workers * options_.first_local_worker;
    next_claim_ = next_step_ = options_.first_step;
    slots_.resize(static_cast<std::size_t>(options_.prefetch_batches) + 1);
    for (Slot& slot : slots_) {
      slot.images.resize(static_cast<std::size_t>(slice_size_ * dataset_->image_elements()));
      slot.labels.resize(static_cast<std::size_t>(slice_size_));
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
    const std::uint64_t step = next_step_++;
    lock.unlock();
    // Taking step s gives back the slot of step s - 1.
    slot_free_.notify_all();
    const std::uint64_t first_position = step * static_cast<std::uint64_t>(options_.batch_size);
    return {.step = step,
            .epoch = first_position / static_cast<std::uint64_t>(dataset_->num_examples()),
            .images = slot.images,
            .labels = slot.labels};
  }

 private:
  struct Slot {
    std::vector<float> images;
    std::vector<std::int32_t> labels;
    std::uint64_t ready_step = 0;  // 1 + the step whose batch or error it holds; 0 = none yet
    std::exception_ptr error;
  };

  Slot& slot_of(std::uint64_t step) { return slots_[static_cast<std::size_t>(step % slots_.size())]; }

  /// A slot may be filled for `step` once the consumer is past the step that used it before: step + 1 - ring size must
  /// have been taken, for then the batch before it has been given back.
  bool is_free_for(std::uint64_t step) const { return step + 1 < next_step_ + slots_.size(); }

  void prepare_batches(const std::stop_token& stop) {
    EpochOrder order(options_.seed, dataset_->num_examples());
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
  bool fill(Slot& slot, std::uint64_t step, EpochOrder& order, const std::stop_token& stop) const {
    const auto num_examples = static_cast<std::uint64_t>(dataset_->num_examples());
    const auto image_elements = static_cast<std::size_t>(dataset_->image_elements());
    const std::uint64_t first_position =
        step * static_cast<std::uint64_t>(options_.batch_size) + static_cast<std::uint64_t>(slice_begin_);
    for (std::size_t i = 0; i < slot.labels.size(); ++i) {
      if (stop.stop_requested()) return false;
      const std::uint64_t position = first_position + i;
      const ExampleVisit visit{.seed = options_.seed, .epoch = position / num_examples};
      const std::int64_t example = order.example(visit.epoch, position % num_examples);
      dataset_->read(example, visit, std::span(slot.images).subspan(i * image_elements, image_elements));
      slot.labels[i] = dataset_->label(example);
    }
    return true;
  }

  std::shared_ptr<const Dataset> dataset_;
  PipelineOptions options_;
  std::int64_t slice_size_ = 0;   // examples of the local workers per step
  std::int64_t slice_begin_ = 0;  // first of them in the joint batch

  std::mutex mutex_;  // guards what follows; a slot's buffers belong to whoever claimed or took its step
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

}  // namespace terngrad
