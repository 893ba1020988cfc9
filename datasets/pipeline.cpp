#include "datasets/pipeline.h"

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <numeric>
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
  const ShuffleOptions& shuffle = options.shuffle;
  if (shuffle.kind == ShuffleOptions::Kind::kExact) return;
  TERNGRAD_REQUIRE(shuffle.num_readers >= 1 && shuffle.window >= 1,
                   "[Pipeline] a window shuffle needs at least 1 reader and a window of 1, got ", shuffle.num_readers,
                   " and ", shuffle.window);
  const std::vector<std::int64_t> sizes = dataset->shard_sizes();
  TERNGRAD_REQUIRE(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == dataset->num_examples(),
                   "[Pipeline] data set ", dataset->name(), " is in no shards, which a window shuffle reads");
}

namespace {

/// Image values that a thread claims at once: one large image, or several small ones, for which a claim each would take
/// as long as reading.
constexpr std::int64_t kClaimedValues = 8192;

}  // namespace

/// A ring of prefetch_batches + 1 slots, one of them held by the consumer. Step s is in slot s mod ring size. Threads
/// claim examples in order, as soon as the slot is free, so that all work on the next needed batch. A thread that
/// claims examples also announces those at the same places of the following step to the data set (Dataset::will_read).
class Pipeline::Impl {
 public:
  Impl(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options)
      : dataset_(std::move(dataset)), options_(options), order_(dataset_.get(), options_) {
    next_claim_ = next_step_ = options_.first_step;
    slots_.resize(static_cast<std::size_t>(options_.prefetch_batches) + 1);
    const auto local_batch = static_cast<std::size_t>(order_.local_batch());
    for (Slot& slot : slots_) {
      slot.images.resize(local_batch * static_cast<std::size_t>(dataset_->image_elements()));
      slot.labels.resize(local_batch);
      slot.examples.resize(local_batch);
    }
    following_.resize(local_batch);
    order_of(next_claim_, following_);
    for (const OrderedExample& example : following_) dataset_->will_read(example.index);
    threads_.reserve(static_cast<std::size_t>(options_.num_threads));
    for (int i = 0; i < options_.num_threads; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { prepare_examples(stop); });
    }
  }

  /// Requests all threads to stop before joining the first.
  ~Impl() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  PipelineBatch next() {
    std::unique_lock lock(mutex_);
    Slot& slot = slot_of(next_step_);
    slot_ready_.wait(lock, [&] { return slot.ready_step == next_step_ + 1; });
    // The stream stays at a failed step, so that later calls fail too.
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
    std::vector<OrderedExample> examples;  // examples of the step in preparation
    std::size_t num_left = 0;              // number of examples not yet prepared
    std::uint64_t ready_step = 0;          // 1 + the step whose batch or error it holds; 0 = none yet
    std::exception_ptr error;
    std::size_t error_place = 0;  // place of the first example that failed
  };

  /// A range of a step's examples that one thread prepares.
  struct Claim {
    std::uint64_t step = 0;
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  PipelineBatch take(const Slot& slot, std::unique_lock<std::mutex> lock) {
    const std::uint64_t step = next_step_++;
    lock.unlock();
    // Taking step s frees the slot of step s - 1.
    slot_free_.notify_all();
    return {.step = step, .epoch = order_.epoch(step), .images = slot.images, .labels = slot.labels};
  }

  Slot& slot_of(std::uint64_t step) { return slots_[static_cast<std::size_t>(step % slots_.size())]; }

  /// True if the slot may be filled for `step`: the consumer has taken step + 1 - ring size, which freed the batch
  /// before.
  bool is_free_for(std::uint64_t step) const { return step + 1 < next_step_ + slots_.size(); }

  void order_of(std::uint64_t step, std::vector<OrderedExample>& examples) {
    for (std::size_t i = 0; i < examples.size(); ++i) examples[i] = order_.at(step, static_cast<std::int64_t>(i));
  }

  void prepare_examples(const std::stop_token& stop) {
    std::vector<OrderedExample> ahead;  // examples at the same places of the following step
    while (true) {
      std::unique_lock lock(mutex_);
      if (!slot_free_.wait(lock, stop, [&] { return is_free_for(next_claim_); })) return;
      const Claim claim = take_claim();
      ahead.assign(following_.begin() + static_cast<std::ptrdiff_t>(claim.begin),
                   following_.begin() + static_cast<std::ptrdiff_t>(claim.end));
      lock.unlock();
      for (const OrderedExample& example : ahead) dataset_->will_read(example.index);
      Slot& slot = slot_of(claim.step);
      std::exception_ptr error;
      std::size_t place = claim.begin;
      for (; place < claim.end; ++place) {
        if (stop.stop_requested()) return;
        try {
          prepare(slot, place);
        } catch (...) {
          error = std::current_exception();
          break;
        }
      }
      lock.lock();
      if (error && (!slot.error || place < slot.error_place)) {
        slot.error = error;
        slot.error_place = place;
      }
      slot.num_left -= claim.end - claim.begin;
      const bool is_ready = slot.num_left == 0;
      if (is_ready) slot.ready_step = claim.step + 1;
      lock.unlock();
      if (is_ready) slot_ready_.notify_one();
    }
  }

  /// Claims the next examples of next_claim_, whose slot is free. The caller holds the lock.
  Claim take_claim() {
    Slot& slot = slot_of(next_claim_);
    const std::size_t count = slot.labels.size();
    if (next_place_ == 0) {
      slot.examples.swap(following_);
      slot.num_left = count;
      slot.error = std::exchange(following_error_, nullptr);
      slot.error_place = 0;
      try {
        order_of(next_claim_ + 1, following_);
      } catch (...) {  // reported as that step's; until then its places hold earlier examples
        following_error_ = std::current_exception();
      }
    }
    const std::int64_t at_once = std::max<std::int64_t>(1, kClaimedValues / dataset_->image_elements());
    const Claim claim{.step = next_claim_,
                      .begin = next_place_,
                      .end = std::min(count, next_place_ + static_cast<std::size_t>(at_once))};
    next_place_ = claim.end;
    if (next_place_ == count) {
      next_place_ = 0;
      ++next_claim_;
    }
    return claim;
  }

  void prepare(Slot& slot, std::size_t place) const {
    const auto image_elements = static_cast<std::size_t>(dataset_->image_elements());
    const OrderedExample& example = slot.examples[place];
    dataset_->read(example.index, {.seed = options_.seed, .epoch = example.epoch},
                   std::span(slot.images).subspan(place * image_elements, image_elements));
    slot.labels[place] = dataset_->label(example.index);
  }

  std::shared_ptr<const Dataset> dataset_;
  PipelineOptions options_;

  std::mutex mutex_;  // guards the members below, except places of slots, which belong to the thread that claimed them
  BatchOrder order_;
  std::condition_variable slot_ready_;
  std::condition_variable_any slot_free_;
  std::uint64_t next_claim_ = 0;           // step of the next unclaimed example
  std::size_t next_place_ = 0;             // that example's place in the step
  std::vector<OrderedExample> following_;  // examples of next_claim_ if none of them is claimed, else of the next step
  std::exception_ptr following_error_;     // ShuffleOptions::example_at threw for them
  std::uint64_t next_step_ = 0;            // step of the batch that next() returns
  std::vector<Slot> slots_;

  std::vector<std::jthread> threads_;  // last: joined before other members are destroyed
};

Pipeline::Pipeline(std::shared_ptr<const Dataset> dataset, const PipelineOptions& options)
    : impl_(std::make_unique<Impl>(std::move(dataset), options)) {}

Pipeline::~Pipeline() = default;

PipelineBatch Pipeline::next() { return impl_->next(); }
std::optional<PipelineBatch> Pipeline::try_next() { return impl_->try_next(); }

}  // namespace terngrad
