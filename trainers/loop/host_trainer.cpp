#include "trainers/loop/host_trainer.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "compress/exchange/compressed_all_reduce.h"
#include "datasets/pipeline.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"
#include "kernels/tensor/transform.h"
#include "trainers/loop/exchange_thread.h"
#include "trainers/loop/ready_buckets.h"
#include "trainers/loop/step_reduction.h"
#include "trainers/loop/trace.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/trained_tensors.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad {
namespace {

/// Numbers of an exchange for a trace event.
Trace::Numbers numbers_of(const ExchangeReport& report) {
  return {{"sent_bytes", static_cast<double>(report.sent_bytes())},
          {"received_bytes", static_cast<double>(report.received_bytes())},
          {"encode_us", 1e6 * (report.measure_seconds + report.encode_seconds)},
          {"wire_us", 1e6 * report.wire_seconds},
          {"decode_us", 1e6 * report.decode_seconds}};
}

void copy_states(const std::vector<Buffer<float>>& from, std::vector<Buffer<float>>& to) {
  for (std::size_t worker = 0; worker < from.size(); ++worker) {
    std::ranges::copy(from[worker].span(), to[worker].span().begin());
  }
}

}  // namespace

TrainerParts::TrainerParts() = default;
TrainerParts::TrainerParts(TrainerParts&&) noexcept = default;
TrainerParts::~TrainerParts() = default;

// The base class holds references to parts that are moved to parts_ afterwards; the objects keep their addresses.
HostTrainer::HostTrainer(TrainerParts parts, const TrainerOptions& options)
    : Trainer(*parts.net, *parts.optimizer, parts.schedule, parts.workers, options),
      parts_(std::move(parts)),
      stream_(Device::cpu(), options.num_threads),
      gradients_(zeros<float>(parts_.net->layout().flat_elements() * parts_.workers.num_local_workers)),
      mean_(zeros<float>(parts_.net->layout().flat_elements())),
      mean_table_(parts_.net->layout(), mean_.data()),
      losses_(states().size()),
      transform_counts_(losses_.size()) {
  for (Buffer<float>& state : states()) {
    states_before_.push_back(zeros<float>(state.num_elements()));
    state_pointers_.push_back(state.data());
  }
  const WorkerGradients gradients = worker_gradients();
  for (int w = 0; w < gradients.num_workers; ++w) gradient_pointers_.push_back(gradients.buffers.of(w));
  gradient_tables_ = tables_of(parts_.net->layout(), gradients);
  TERNGRAD_REQUIRE(!parts_.exchanges.empty(),
                   "[HostTrainer] TrainerParts::exchanges is empty: add a CompressedAllReduce");
  TERNGRAD_REQUIRE(parts_.served == nullptr || parts_.optimizer->message_transform() == nullptr, "[HostTrainer] ",
                   parts_.optimizer->name(), " needs its slots in every worker; servers hold them");
  if (parts_.buckets.empty()) parts_.buckets = whole_bucket(parts_.net->layout());
  check_buckets(parts_.net->layout(), parts_.buckets);
  buckets_ = parts_.buckets;
  const std::int64_t examples = options.batch_size / parts_.workers.num_workers * parts_.workers.num_local_workers;
  if (parts_.net->writes_logits()) logits_.resize(static_cast<std::size_t>(examples * parts_.net->num_classes()));
  // A server computes nothing to overlap with: it exchanges the buckets one after the other.
  if (!options.overlap || parts_.workers.is_server()) return;
  require_per_tensor(parts_.transforms);
  exchange_thread_ = std::make_unique<ExchangeThread>();
}

HostTrainer::~HostTrainer() = default;

std::uint64_t HostTrainer::run() {
  PipelineOptions examples = pipeline_options(workers(), workers(), options());
  examples.first_step = steps_done();
  std::optional<Pipeline> pipeline;
  if (!workers().is_server()) pipeline.emplace(parts_.dataset, examples);
  if (parts_.served != nullptr) parts_.served->begin(parameters(), *parts_.optimizer, steps_done() == 0);
  begin();
  while (!is_done()) {
    if (next_change_step(steps_done()) == steps_done()) change_run();
    step(pipeline ? &*pipeline : nullptr);
  }
  finish();
  return steps_done();
}

void HostTrainer::change_run() {
  if (parts_.served != nullptr) {
    throw NotSupported("[hook] servers that update parameters do not take changes by hooks (--pull parameters)");
  }
  change();
  buckets_ = trained().of(parts_.buckets);
}

std::vector<Optimizer::Slot> HostTrainer::slots() {
  std::vector<Optimizer::Slot> slots = parts_.optimizer->slots();
  if (parts_.served != nullptr) std::ranges::move(parts_.served->own_slots(), std::back_inserter(slots));
  return slots;
}

TrainingView::Shared HostTrainer::shared() { return shared_state_of(parts_.exchanges[0]->shared_state()); }

void HostTrainer::send_heartbeat() {
  Trainer::send_heartbeat();
  if (options().workers_per_group > 1) parts_.exchanges[0]->send_heartbeat();
}

TrainingView::Memories HostTrainer::memories() { return memories_of(parts_.exchanges[0]->memory()); }

std::function<void()> HostTrainer::slot_gatherer() {
  if (parts_.served == nullptr) return {};
  return [this] { parts_.served->gather(*parts_.optimizer); };
}

void HostTrainer::update_parameters(double learning_rate) {
  if (parts_.served == nullptr) {
    if (options().mean_factor != 1) scale(mean_.span(), options().mean_factor, stream_);
    parts_.optimizer->apply(parameters(), mean_.span(), static_cast<float>(learning_rate), stream_, &trained());
    return;
  }
  for (const Segment& segment : parts_.net->layout().segments()) {
    std::copy_n(mean_.data() + segment.offset, segment.num_elements, parameters().data() + segment.offset);
  }
  parts_.optimizer->count_updates(1);
}

WorkerGradients HostTrainer::worker_gradients() {
  return {{gradients_.data(), parts_.net->layout().flat_elements()},
          workers().num_local_workers,
          workers().first_local_worker};
}

void HostTrainer::apply_transforms_to_tensor(int worker, int segment) {
  Stream worker_stream(Device::cpu(), workers().num_local_workers == 1 ? stream_.num_threads() : 1);
  submit_all(parts_.transforms, parameters().data(), worker_gradients().of_worker(worker),
             range_of(parts_.net->layout().segment(segment)), &transform_counts_[static_cast<std::size_t>(worker)],
             worker_stream);
}

HostTrainer::Combined HostTrainer::compute_then_combine(const TrainBatch& batch) {
  Combined combined;
  auto mark = std::chrono::steady_clock::now();
  if (!workers().is_server()) {
    const TraceSpan span(options().trace, Trace::Row::kStep, "compute");
    parts_.net->compute_gradients(parameters(), batch, gradient_pointers_, losses_);
    submit_all(parts_.transforms, parameters().data(), worker_gradients(), trained(), transform_counts_.data(),
               stream_);
  }
  combined.compute_seconds = lap_seconds(mark);
  const auto begin = mark;
  CompressedAllReduce& exchange = exchange_of(batch.step);
  exchange.begin(batch.step);
  for (const std::vector<int>& bucket : buckets_) exchange.exchange(bucket, gradient_tables_, mean_table_);
  combined.report = exchange.finish();
  combined.exposed_seconds = lap_seconds(mark);
  if (options().trace != nullptr) {
    options().trace->add(Trace::Row::kStep, "exchange", begin, mark, numbers_of(combined.report));
  }
  return combined;
}

HostTrainer::Combined HostTrainer::compute_while_combining(const TrainBatch& batch) {
  Combined combined;
  auto mark = std::chrono::steady_clock::now();
  CompressedAllReduce& exchange = exchange_of(batch.step);
  exchange.begin(batch.step);
  ReadyBuckets ready(buckets_, workers().num_local_workers, [&](int bucket) {
    exchange_thread_->submit([this, &exchange, bucket] { exchange_bucket(exchange, bucket); });
  });
  try {
    parts_.net->compute_gradients(parameters(), batch, gradient_pointers_, losses_, [&](int worker, int segment) {
      if (trained().is_frozen(segment)) return;
      apply_transforms_to_tensor(worker, segment);
      if (options().trace != nullptr) {
        options().trace->mark(Trace::Row::kTensors, parts_.net->layout().segment(segment).name + ", worker " +
                                                        std::to_string(workers().first_local_worker + worker));
      }
      ready.mark(segment);
    });
    TERNGRAD_REQUIRE(ready.all_announced(), "[overlap] the net ", parts_.net->name(), " has not ended every tensor");
  } catch (...) {
    // Other ranks may wait for the dropped buckets until they learn of this failure.
    exchange_thread_->cancel();
    throw;
  }
  const auto begin = mark;
  combined.compute_seconds = lap_seconds(mark);
  if (options().trace != nullptr) options().trace->add(Trace::Row::kStep, "compute", begin, mark);
  const ExchangeThread::Times times = [&] {
    const TraceSpan span(options().trace, Trace::Row::kStep, "wait for the exchange");
    return exchange_thread_->wait();
  }();
  combined.hidden_seconds = times.hidden_seconds;
  combined.exposed_seconds = times.exposed_seconds;
  combined.report = exchange.finish();
  return combined;
}

CompressedAllReduce& HostTrainer::exchange_of(std::uint64_t step) {
  return *parts_.exchanges.at(parts_.exchange_of(step));
}

void HostTrainer::exchange_bucket(CompressedAllReduce& exchange, int bucket) {
  const auto begin = Trace::Clock::now();
  const ExchangeReport report =
      exchange.exchange(buckets_[static_cast<std::size_t>(bucket)], gradient_tables_, mean_table_);
  if (options().trace == nullptr) return;
  options().trace->add(Trace::Row::kExchange, "bucket " + std::to_string(bucket), begin, Trace::Clock::now(),
                       numbers_of(report));
}

void HostTrainer::step(Pipeline* pipeline) {
  const auto begin = std::chrono::steady_clock::now();
  auto mark = begin;
  const std::uint64_t step = steps_done();
  Trace* const trace = options().trace;
  if (trace != nullptr) trace->begin_step(step + 1);
  const PipelineBatch batch = pipeline != nullptr ? pipeline->next() : PipelineBatch{};
  const double data_seconds = lap_seconds(mark);
  if (trace != nullptr) trace->add(Trace::Row::kStep, "data", begin, mark);

  parts_.optimizer->use_exchange(parts_.exchange_of(step), stream_);
  copy_states(states(), states_before_);
  std::ranges::fill(transform_counts_, TransformCounts{});
  const TrainBatch own{
      .images = batch.images, .labels = batch.labels, .step = step, .states = state_pointers_, .logits = logits_};
  const Combined combined = exchange_thread_ ? compute_while_combining(own) : compute_then_combine(own);
  mark = std::chrono::steady_clock::now();
  if (!combined.report.skipped) {
    update_parameters(learning_rate(step));
    ema().update(parameters(), step, stream_);
    if (!workers().is_server()) state_ema().update(state(0), step, stream_);
  } else {
    copy_states(states_before_, states());
  }
  if (rebroadcasts_after(step + 1)) rebroadcast();
  const auto update_begin = mark;
  const double update_seconds = lap_seconds(mark);
  if (trace != nullptr) trace->add(Trace::Row::kStep, "update", update_begin, mark);

  TransformCounts counts;
  for (const TransformCounts& of_worker : transform_counts_) counts += of_worker;
  const StepSummary summary = summarize_step(workers(), losses_, counts, combined.report, stop_is_asked());
  if (trace != nullptr) {
    const auto end = Trace::Clock::now();
    trace->add(Trace::Row::kStep, "summary", mark, end);
    trace->add(Trace::Row::kStep, "step", begin, end);
  }
  if (summary.stop) stop();
  const auto gradient = [&](int local_worker, int segment) -> std::span<const float> {
    return {gradient_tables_[static_cast<std::size_t>(local_worker)].tensor(segment),
            static_cast<std::size_t>(parts_.net->layout().segment(segment).num_elements)};
  };
  StepTensors tensors{
      .gradient = gradient,
      .group_mean = [&](int segment) { return exchange_of(step).group_mean(0, segment); },
      .encoded = [&](int segment) { return exchange_of(step).encoded(0, segment); },
      .decode_sent = [&](int segment, std::span<float> out) { return exchange_of(step).decode_local(0, segment, out); },
  };
  // Servers that update parameters send these instead of a mean gradient.
  if (parts_.served == nullptr) {
    tensors.mean = [&](int segment) -> std::span<const float> {
      const Segment& place = parts_.net->layout().segment(segment);
      return mean_.span().subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.num_elements));
    };
  }
  ExchangeReport report = combined.report;
  static_cast<ExchangeBytes&>(report) = summary.bytes;
  StepView view = step_view(summary, report, tensors);
  view.step_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  view.compute_seconds = combined.compute_seconds;
  view.update_seconds = update_seconds;
  view.data_seconds = data_seconds;
  view.hidden_seconds = combined.hidden_seconds;
  view.exposed_seconds = combined.exposed_seconds;
  view.images = batch.images;
  view.labels = batch.labels;
  view.logits = logits_;
  after_step(view);
}

}  // namespace terngrad
