#include "trainers/loop/host_trainer.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "compress/memory/factor_state.h"
#include "compress/plan/telemetry.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/runtime/stopwatch.h"
#include "kernels/tensor/transform.h"
#include "trainers/loop/ready_buckets.h"
#include "trainers/loop/step_summary.h"
#include "trainers/loop/trace.h"

namespace terngrad {
namespace {

/// What a trace says of a part of an exchange.
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

// The base refers to parts that move to parts_ only after it is made; they stay where they are in memory.
HostTrainer::HostTrainer(TrainerParts parts, const TrainerOptions& options)
    : Trainer(*parts.net, *parts.optimizer, parts.schedule, parts.workers, options),
      parts_(std::move(parts)),
      stream_(Device::cpu(), options.num_threads),
      mean_(zeros<float>(parts_.net->layout().flat_elements())),
      losses_(states().size()),
      transform_counts_(losses_.size()) {
  const Layout& layout = parts_.net->layout();
  for (Buffer<float>& state : states()) {
    states_before_.push_back(zeros<float>(state.num_elements()));
    state_pointers_.push_back(state.data());
    gradients_.push_back(zeros<float>(layout.flat_elements()));
    gradient_pointers_.push_back(gradients_.back().data());
    gradient_tables_.emplace_back(layout, gradients_.back().data());
  }
  // A server has nothing to overlap with: it takes bucket after bucket.
  if (!options.overlap || parts_.workers.is_server()) return;
  TERNGRAD_REQUIRE(parts_.strategy->in_buckets(0) != nullptr, "[overlap] the strategy ", parts_.strategy->name(),
                   " needs whole gradients");
  for (const auto& transform : parts_.transforms) {
    TERNGRAD_REQUIRE(transform->is_per_tensor(), "[overlap] ", transform->name(), " needs the whole gradient");
  }
  exchange_thread_ = std::make_unique<ExchangeThread>();
}

std::uint64_t HostTrainer::run() {
  PipelineOptions examples = pipeline_options(workers(), workers(), options());
  examples.first_step = steps_done();
  std::optional<Pipeline> pipeline;
  if (!workers().is_server()) pipeline.emplace(parts_.dataset, examples);
  if (parts_.served != nullptr) parts_.served->begin(parameters(), *parts_.optimizer, steps_done() == 0);
  begin();
  while (!is_done()) step(pipeline ? &*pipeline : nullptr);
  finish();
  return steps_done();
}

std::vector<Optimizer::Slot> HostTrainer::slots() {
  std::vector<Optimizer::Slot> slots = parts_.optimizer->slots();
  if (parts_.served != nullptr) std::ranges::move(parts_.served->own_slots(), std::back_inserter(slots));
  return slots;
}

TrainingView::Factors HostTrainer::factors() {
  FactorState* const factors = parts_.strategy->factors();
  if (factors == nullptr || factors->layout().num_segments() == 0) return {};
  return {&factors->layout(), factors->values()};
}

TrainingView::Kept HostTrainer::kept() { return kept_of(parts_.strategy->memory()); }

std::function<void()> HostTrainer::slot_gatherer() {
  if (parts_.served == nullptr) return {};
  return [this] { parts_.served->gather(*parts_.optimizer); };
}

void HostTrainer::update_parameters(double learning_rate) {
  if (parts_.served == nullptr) {
    if (options().mean_factor != 1) scale(mean_.span(), options().mean_factor, stream_);
    parts_.optimizer->apply(parameters(), mean_.span(), static_cast<float>(learning_rate), stream_);
    return;
  }
  for (const Segment& segment : parts_.net->layout().segments()) {
    std::copy_n(mean_.data() + segment.offset, segment.num_elements, parameters().data() + segment.offset);
  }
  parts_.optimizer->count_updates(1);
}

void HostTrainer::apply_transforms() {
  const auto num_local = static_cast<std::int64_t>(gradients_.size());
  // Side by side where there are more workers than threads; else one after the other with all threads.
  const bool side_by_side = num_local >= stream_.num_threads();
  parallel_for(side_by_side ? stream_.num_threads() : 1, num_local, 1, [&](std::int64_t first, std::int64_t last) {
    Stream worker_stream(Device::cpu(), side_by_side ? 1 : stream_.num_threads());
    for (auto worker = static_cast<std::size_t>(first); worker < static_cast<std::size_t>(last); ++worker) {
      TransformCounts& counts = transform_counts_[worker] = {};
      for (const auto& transform : parts_.transforms) {
        counts += transform->apply(static_cast<int>(worker), parameters(), gradients_[worker].span(), worker_stream);
      }
    }
  });
}

void HostTrainer::apply_transforms_to_tensor(int worker, int segment) {
  const Segment& tensor = parts_.net->layout().segment(segment);
  const auto w = static_cast<std::size_t>(worker);
  const auto first = static_cast<std::size_t>(tensor.offset);
  const auto count = static_cast<std::size_t>(tensor.num_elements);
  Stream worker_stream(Device::cpu(), gradients_.size() == 1 ? stream_.num_threads() : 1);
  for (const auto& transform : parts_.transforms) {
    transform_counts_[w] += transform->apply_to_tensor(worker, segment, parameters().subspan(first, count),
                                                       gradients_[w].span().subspan(first, count), worker_stream);
  }
}

HostTrainer::Combined HostTrainer::compute_then_combine(const TrainBatch& batch) {
  Combined combined;
  auto mark = std::chrono::steady_clock::now();
  if (!workers().is_server()) {
    const TraceSpan span(options().trace, Trace::Row::kStep, "compute");
    parts_.net->compute_gradients(parameters(), batch, gradient_pointers_, losses_);
    apply_transforms();
  }
  combined.compute_seconds = lap_seconds(mark);
  const auto begin = mark;
  combined.result = parts_.strategy->combine(gradient_tables_, mean_.span(), batch.step);
  combined.exposed_seconds = lap_seconds(mark);
  if (options().trace != nullptr) {
    options().trace->add(Trace::Row::kStep, "exchange", begin, mark, numbers_of(combined.result.report));
  }
  return combined;
}

HostTrainer::Combined HostTrainer::compute_while_combining(const TrainBatch& batch) {
  Combined combined;
  auto mark = std::chrono::steady_clock::now();
  BucketedExchange& exchange = *parts_.strategy->in_buckets(batch.step);
  exchange.begin(gradient_tables_, TensorTable(parts_.net->layout(), mean_.data()), batch.step);
  std::ranges::fill(transform_counts_, TransformCounts{});
  ReadyBuckets ready(exchange.buckets(), static_cast<int>(gradients_.size()), [&](int bucket) {
    exchange_thread_->submit([this, &exchange, bucket] { exchange_bucket(exchange, bucket); });
  });
  try {
    parts_.net->compute_gradients(parameters(), batch, gradient_pointers_, losses_, [&](int worker, int segment) {
      apply_transforms_to_tensor(worker, segment);
      if (options().trace != nullptr) {
        options().trace->mark(Trace::Row::kTensors, parts_.net->layout().segment(segment).name + ", worker " +
                                                        std::to_string(workers().first_local_worker + worker));
      }
      ready.mark(segment);
    });
    TERNGRAD_REQUIRE(ready.all_announced(), "[overlap] the net ", parts_.net->name(), " has not ended every tensor");
  } catch (...) {
    // Other ranks may wait for what is dropped here, until they hear of this failure.
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
  combined.result.report = exchange.finish();
  combined.result.skip = combined.result.report.skipped;
  return combined;
}

void HostTrainer::exchange_bucket(BucketedExchange& exchange, int bucket) {
  const auto begin = Trace::Clock::now();
  const ExchangeReport report = exchange.exchange_bucket(bucket);
  if (options().trace == nullptr) return;
  options().trace->add(Trace::Row::kExchange, "bucket " + std::to_string(bucket), begin, Trace::Clock::now(),
                       numbers_of(report));
}

TransformCounts HostTrainer::transform_counts() const {
  TransformCounts sum;
  for (const TransformCounts& worker : transform_counts_) sum += worker;
  return sum;
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

  copy_states(states(), states_before_);
  const TrainBatch own{.images = batch.images, .labels = batch.labels, .step = step, .states = state_pointers_};
  const Combined combined = exchange_thread_ ? compute_while_combining(own) : compute_then_combine(own);
  const StrategyResult& result = combined.result;
  mark = std::chrono::steady_clock::now();
  const double rate = learning_rate(step);
  if (!result.skip) {
    update_parameters(rate);
    ema().update(parameters(), step, stream_);
    if (!workers().is_server()) state_ema().update(state(0), step, stream_);
  } else {
    copy_states(states_before_, states());
  }
  rebroadcast(step);
  const auto update_begin = mark;
  const double update_seconds = lap_seconds(mark);
  if (trace != nullptr) trace->add(Trace::Row::kStep, "update", update_begin, mark);

  const StepSummary summary = summarize_step(workers(), losses_, transform_counts(), result.report, stop_is_asked());
  if (trace != nullptr) {
    const auto end = Trace::Clock::now();
    trace->add(Trace::Row::kStep, "summary", mark, end);
    trace->add(Trace::Row::kStep, "step", begin, end);
  }
  if (summary.stop) stop();
  ExchangeReport report = result.report;
  static_cast<ExchangeBytes&>(report) = summary.bytes;
  const auto worker_gradient = [&](int local_worker, int segment) -> std::span<const float> {
    return {gradient_tables_[static_cast<std::size_t>(local_worker)].tensor(segment),
            static_cast<std::size_t>(parts_.net->layout().segment(segment).num_elements)};
  };
  const auto gradient = [&](int segment) { return worker_gradient(0, segment); };
  const auto decode_sent = [&](int segment, std::span<float> out) {
    return parts_.strategy->decode_sent(0, segment, out);
  };
  const auto encoded = [&](int segment) { return parts_.strategy->encoded(0, segment); };
  std::function<std::span<const float>(int segment)> mean;
  // From servers that update them come parameters in its place.
  if (parts_.served == nullptr) {
    mean = [&](int segment) -> std::span<const float> {
      const Segment& place = parts_.net->layout().segment(segment);
      return mean_.span().subspan(static_cast<std::size_t>(place.offset), static_cast<std::size_t>(place.num_elements));
    };
  }
  after_step({
      .step = step,
      .loss = summary.loss,
      .accuracy = static_cast<double>(summary.num_correct) / static_cast<double>(options().batch_size),
      .learning_rate = rate,
      .step_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
      .compute_seconds = combined.compute_seconds,
      .update_seconds = update_seconds,
      .data_seconds = data_seconds,
      .hidden_seconds = combined.hidden_seconds,
      .exposed_seconds = combined.exposed_seconds,
      .transform_counts = summary.counts,
      .report = report,
      .telemetry = telemetry_of(gradient, encoded, decode_sent),
      .gradient = gradient,
      .worker_gradient = worker_gradient,
      .decode_sent = decode_sent,
      .mean = mean,
  });
}

}  // namespace terngrad
