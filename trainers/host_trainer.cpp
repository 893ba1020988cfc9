#include "trainers/host_trainer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "compress/telemetry.h"
#include "kernels/parallel.h"
#include "kernels/transform.h"
#include "trainers/step_summary.h"

namespace terngrad {
namespace {

double seconds_since(std::chrono::steady_clock::time_point& begin) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - begin).count();
  begin = now;
  return seconds;
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
}

std::uint64_t HostTrainer::run() {
  PipelineOptions examples = pipeline_options(workers(), options());
  examples.first_step = steps_done();
  Pipeline pipeline(parts_.dataset, examples);
  begin();
  while (!is_done()) step(pipeline);
  finish();
  return steps_done();
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

TransformCounts HostTrainer::transform_counts() const {
  TransformCounts sum;
  for (const TransformCounts& worker : transform_counts_) sum += worker;
  return sum;
}

void HostTrainer::step(Pipeline& pipeline) {
  const auto begin = std::chrono::steady_clock::now();
  auto mark = begin;
  const std::uint64_t step = steps_done();
  const PipelineBatch batch = pipeline.next();
  const double data_seconds = seconds_since(mark);

  copy_states(states(), states_before_);
  parts_.net->compute_gradients(
      parameters(), {.images = batch.images, .labels = batch.labels, .step = step, .states = state_pointers_},
      gradient_pointers_, losses_);
  apply_transforms();
  const double compute_seconds = seconds_since(mark);

  const StrategyResult result = parts_.strategy->combine(gradient_tables_, mean_.span(), step);
  mark = std::chrono::steady_clock::now();
  const double rate = learning_rate(step);
  if (!result.skip) {
    if (options().mean_factor != 1) scale(mean_.span(), options().mean_factor, stream_);
    parts_.optimizer->apply(parameters(), mean_.span(), static_cast<float>(rate), stream_);
    ema().update(parameters(), step, stream_);
    state_ema().update(state(0), step, stream_);
  } else {
    copy_states(states_before_, states());
  }
  rebroadcast(step);
  const double update_seconds = seconds_since(mark);

  const StepSummary summary = summarize_step(workers(), losses_, transform_counts(), result.report, stop_is_asked());
  if (summary.stop) stop();
  ExchangeReport report = result.report;
  report.scalers = summary.scalers;
  report.gradient = summary.gradient;
  report.mean = summary.mean;
  const auto gradient = [&](int segment) -> std::span<const float> {
    return {gradient_tables_[0].tensor(segment),
            static_cast<std::size_t>(parts_.net->layout().segment(segment).num_elements)};
  };
  const auto decode_sent = [&](int segment, std::span<float> out) {
    return parts_.strategy->decode_sent(0, segment, out);
  };
  after_step({
      .step = step,
      .loss = summary.loss,
      .accuracy = static_cast<double>(summary.num_correct) / static_cast<double>(options().batch_size),
      .learning_rate = rate,
      .step_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
      .compute_seconds = compute_seconds,
      .update_seconds = update_seconds,
      .data_seconds = data_seconds,
      .transform_counts = summary.counts,
      .report = report,
      .telemetry = telemetry_of(gradient, decode_sent),
      .gradient = gradient,
      .decode_sent = decode_sent,
  });
}

}  // namespace terngrad
