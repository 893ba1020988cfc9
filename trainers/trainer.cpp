#include "trainers/trainer.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "kernels/errors.h"
#include "kernels/parallel.h"

namespace terngrad {
namespace {

double seconds_since(std::chrono::steady_clock::time_point& begin) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = std::chrono::duration<double>(now - begin).count();
  begin = now;
  return seconds;
}

Buffer<float> initial_parameters(const Net& net, std::uint64_t seed) {
  Buffer<float> parameters(net.layout().flat_elements());
  net.initialize(seed, parameters.span());
  return parameters;
}

std::vector<Buffer<float>> initial_states(const Net& net, int num_workers) {
  std::vector<Buffer<float>> states;
  for (int worker = 0; worker < num_workers; ++worker) {
    states.emplace_back(net.state_layout().flat_elements());
    net.initialize_state(states.back().span());
  }
  return states;
}

void copy_states(const std::vector<Buffer<float>>& from, std::vector<Buffer<float>>& to) {
  for (std::size_t worker = 0; worker < from.size(); ++worker) {
    std::ranges::copy(from[worker].span(), to[worker].span().begin());
  }
}

}  // namespace

Trainer::Trainer(TrainerParts parts, const TrainerOptions& options)
    : parts_(std::move(parts)),
      options_(options),
      stream_(Device::cpu(), options.num_threads),
      parameters_(initial_parameters(*parts_.net, options.seed)),
      ema_(options.ema_decay, parameters_.span()),
      states_(initial_states(*parts_.net, parts_.workers.num_local_workers)),
      states_before_(initial_states(*parts_.net, parts_.workers.num_local_workers)),
      state_ema_(options.ema_decay, states_.at(0).span()),
      mean_(zeros<float>(parts_.net->layout().flat_elements())),
      losses_(static_cast<std::size_t>(parts_.workers.num_local_workers)),
      transform_counts_(losses_.size()) {
  const Layout& layout = parts_.net->layout();
  for (int worker = 0; worker < parts_.workers.num_local_workers; ++worker) {
    gradients_.push_back(zeros<float>(layout.flat_elements()));
    gradient_pointers_.push_back(gradients_.back().data());
    gradient_tables_.emplace_back(layout, gradients_.back().data());
  }
  for (Buffer<float>& state : states_) state_pointers_.push_back(state.data());
}

Trainer::~Trainer() = default;

void Trainer::add_hook(std::unique_ptr<Hook> hook) { hooks_.push_back(std::move(hook)); }

TrainingView Trainer::view() {
  std::vector<std::span<const float>> states;
  for (const Buffer<float>& state : states_) states.push_back(state.span());
  return {.net = *parts_.net,
          .parameters = parameters_.span(),
          .ema = ema_.shadow(),
          .slots = parts_.optimizer->slots(),
          .optimizer_state = parts_.optimizer->state(),
          .steps_done = steps_done_,
          .total_steps = options_.total_steps,
          .num_workers = parts_.workers.num_workers,
          .num_local_workers = parts_.workers.num_local_workers,
          .batch_size = options_.batch_size,
          .states = std::move(states),
          .ema_state = state_ema_.shadow()};
}

std::uint64_t Trainer::run() {
  const bool chief = parts_.workers.communicator->rank() == 0;
  PipelineOptions pipeline_options;
  pipeline_options.batch_size = options_.batch_size;
  pipeline_options.num_workers = parts_.workers.num_workers;
  pipeline_options.first_local_worker = parts_.workers.first_local_worker;
  pipeline_options.num_local_workers = parts_.workers.num_local_workers;
  pipeline_options.seed = options_.seed;
  pipeline_options.first_step = steps_done_;
  pipeline_options.num_threads = options_.num_data_threads;
  Pipeline pipeline(parts_.dataset, pipeline_options);
  stop_ = false;
  for (const auto& hook : hooks_) {
    if (chief || hook->on_every_rank()) hook->before_train(view());
  }
  while (steps_done_ < options_.total_steps && !stop_) step(pipeline);
  for (const auto& hook : hooks_) {
    if (chief || hook->on_every_rank()) hook->after_train(view());
  }
  return steps_done_;
}

void Trainer::step(Pipeline& pipeline) {
  const auto begin = std::chrono::steady_clock::now();
  auto mark = begin;
  const std::uint64_t step = steps_done_;
  const PipelineBatch batch = pipeline.next();
  const double data_seconds = seconds_since(mark);

  copy_states(states_, states_before_);
  parts_.net->compute_gradients(
      parameters_.span(), {.images = batch.images, .labels = batch.labels, .step = step, .states = state_pointers_},
      gradient_pointers_, losses_);
  const auto num_local = static_cast<std::int64_t>(gradients_.size());
  // Side by side where there are more workers than threads; else one after the other with all threads.
  const bool side_by_side = num_local >= stream_.num_threads();
  parallel_for(side_by_side ? stream_.num_threads() : 1, num_local, 1, [&](std::int64_t first, std::int64_t last) {
    Stream worker_stream(Device::cpu(), side_by_side ? 1 : stream_.num_threads());
    for (auto worker = static_cast<std::size_t>(first); worker < static_cast<std::size_t>(last); ++worker) {
      TransformCounts& counts = transform_counts_[worker] = {};
      for (const auto& transform : parts_.transforms) {
        counts +=
            transform->apply(static_cast<int>(worker), parameters_.span(), gradients_[worker].span(), worker_stream);
      }
    }
  });
  const double compute_seconds = seconds_since(mark);

  const StrategyResult result = parts_.strategy->combine(gradient_tables_, mean_.span(), step);
  mark = std::chrono::steady_clock::now();
  const double learning_rate = parts_.schedule.rate(static_cast<std::int64_t>(step));
  if (!result.skip) {
    parts_.optimizer->apply(parameters_.span(), mean_.span(), static_cast<float>(learning_rate), stream_);
    ema_.update(parameters_.span(), step, stream_);
    state_ema_.update(states_[0].span(), step, stream_);
  } else {
    copy_states(states_before_, states_);
  }
  const double update_seconds = seconds_since(mark);
  ++steps_done_;

  double loss = 0;
  int correct = 0;
  for (const WorkerLoss& worker : losses_) {
    loss += worker.entropy_loss;
    correct += worker.num_correct;
  }
  TransformCounts transform_counts;
  for (const TransformCounts& worker : transform_counts_) transform_counts += worker;
  const std::int64_t local_examples = options_.batch_size / parts_.workers.num_workers * num_local;
  const auto gradient = [&](int segment) -> std::span<const float> {
    return {gradient_tables_[0].tensor(segment),
            static_cast<std::size_t>(parts_.net->layout().segment(segment).num_elements)};
  };
  const auto decode_sent = [&](int segment, std::span<float> out) {
    return parts_.strategy->decode_sent(0, segment, out);
  };
  const StepView view{
      .step = step,
      .loss = loss / static_cast<double>(num_local),
      .accuracy = correct / static_cast<double>(local_examples),
      .learning_rate = learning_rate,
      .step_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
      .compute_seconds = compute_seconds,
      .update_seconds = update_seconds,
      .data_seconds = data_seconds,
      .transform_counts = transform_counts,
      .report = result.report,
      .telemetry =
          [&](int segment) {
            std::vector<float> sent(gradient(segment).size());
            const float scaler = decode_sent(segment, sent);
            return compare_with_sent(gradient(segment), sent, static_cast<double>(scaler));
          },
      .gradient = gradient,
      .decode_sent = decode_sent,
  };
  if (call_hooks(view) == HookVerdict::kStop) stop_ = true;
}

HookVerdict Trainer::call_hooks(const StepView& step) {
  const bool chief = parts_.workers.communicator->rank() == 0;
  HookVerdict verdict = HookVerdict::kContinue;
  for (const auto& hook : hooks_) {
    if (!chief && !hook->on_every_rank()) continue;
    if (hook->after_step(view(), step) == HookVerdict::kStop) verdict = HookVerdict::kStop;
  }
  return verdict;
}

}  // namespace terngrad
