#include "trainers/loop/trainer.h"

#include <algorithm>
#include <utility>

#include "compress/transport/grouped_peers.h"
#include "datasets/pipeline.h"
#include "kernels/runtime/errors.h"
#include "trainers/io/xxhash64.h"
#include "trainers/loop/step_reduction.h"
#include "trainers/loop/training_control.h"
#include "trainers/optim/trained_tensors.h"

namespace terngrad {
namespace {

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

}  // namespace

Trainer::Trainer(Net& net, Optimizer& optimizer, const Schedule& schedule, const WorkerGroup& workers,
                 const TrainerOptions& options)
    : net_(net),
      optimizer_(optimizer),
      schedule_(schedule),
      workers_(workers),
      options_(options),
      parameters_(initial_parameters(net, options.seed)),
      ema_(options.ema_decay, parameters_.span()),
      states_(initial_states(net, workers.num_local_workers)),
      state_ema_(options.ema_decay, initial_states(net, 1)[0].span()),
      trained_(std::make_unique<TrainedTensors>(net.layout())) {}

Trainer::~Trainer() = default;

int Trainer::first_local_sender() const { return first_group_from(first_local_worker(), options_.workers_per_group); }

void Trainer::add_hook(std::unique_ptr<Hook> hook) { hooks_.push_back(std::move(hook)); }

TrainingView Trainer::view() {
  std::vector<std::span<const float>> states;
  for (const Buffer<float>& state : states_) states.push_back(state.span());
  TrainingView view{.net = net_,
                    .parameters = parameters_.span(),
                    .ema = ema_.shadow(),
                    .slots = slots(),
                    .optimizer_state = optimizer_.state(),
                    .steps_done = steps_done_,
                    .total_steps = options_.total_steps,
                    .steps_computed = std::max(steps_computed_, steps_done_),
                    .stop_delay = workers_.communicator->size() > 1 ? 1u : 0u,
                    .stops_now = stop_,
                    .num_workers = workers_.num_workers,
                    .num_local_workers = workers_.num_local_workers,
                    .workers_per_group = options_.workers_per_group,
                    .batch_size = options_.batch_size,
                    .states = std::move(states),
                    .ema_state = state_ema_.shadow(),
                    .memories = memories(),
                    .shared = shared(),
                    .frozen = trained_->frozen(),
                    .services = {.communicator = workers_.communicator.get(),
                                 .send_heartbeat = [this] { send_heartbeat(); },
                                 .gather_slots = slot_gatherer(),
                                 .num_replicas = num_replicas(),
                                 .show_replica = [this](int replica) { show_replica(replica); },
                                 .hook_state = [this] { return hook_state(); }}};
  add_to_view(view);
  return view;
}

PipelineOptions pipeline_options(const WorkerRange& workers, const WorkerRange& of_process,
                                 const TrainerOptions& options) {
  PipelineOptions result;
  result.batch_size = options.batch_size;
  result.num_workers = workers.num_workers;
  result.first_local_worker = workers.first_local_worker;
  result.num_local_workers = workers.num_local_workers;
  result.seed = options.seed;
  if (options.has_data_shard) {
    result.batch_size = options.batch_size / workers.num_workers * of_process.num_local_workers;
    result.num_workers = of_process.num_local_workers;
    result.first_local_worker = workers.first_local_worker - of_process.first_local_worker;
    // A seed per process: else examples with the same index would be shuffled and augmented alike in all shards.
    result.seed = Xxhash64().add(options.seed).add(static_cast<std::uint64_t>(of_process.first_local_worker)).value();
  }
  result.num_threads = options.num_data_threads;
  result.shuffle = options.shuffle;
  return result;
}

bool Trainer::is_called(const Hook& hook) const { return workers_.communicator->rank() == 0 || hook.on_every_rank(); }

std::map<std::string, std::string> Trainer::hook_state() const {
  std::map<std::string, std::string> entries;
  for (const auto& hook : hooks_) {
    if (is_called(*hook)) hook->save_state(entries);
  }
  return entries;
}

StepView Trainer::step_view(const StepSummary& summary, const ExchangeReport& report,
                            const StepTensors& tensors) const {
  StepView view{
      .step = steps_done_,
      .loss = summary.loss,
      .accuracy = static_cast<double>(summary.num_correct) / static_cast<double>(options_.batch_size),
      .learning_rate = learning_rate(steps_done_),
      .transform_counts = summary.counts,
      .report = report,
      .telemetry = {},
      .worker_gradient = tensors.gradient,
      .decode_sent = tensors.decode_sent,
      .mean = tensors.mean,
  };
  if (!tensors.gradient) return view;
  view.gradient = [gradient = tensors.gradient, group_mean = tensors.group_mean](int segment) {
    const std::span<const float> mean = group_mean ? group_mean(segment) : std::span<const float>{};
    return mean.empty() ? gradient(0, segment) : mean;
  };
  view.telemetry = telemetry_of(view.gradient, tensors.encoded, tensors.decode_sent);
  return view;
}

void Trainer::rebroadcast() {
  const auto send = [this](std::span<float> values) {
    workers_.communicator->broadcast({reinterpret_cast<std::uint8_t*>(values.data()), values.size_bytes()}, 0);
  };
  send(parameters_.span());
  send(ema_.shadow());
  for (const Optimizer::Slot& slot : slots()) send(slot.values);
}

void Trainer::begin() {
  stop_ = stop_is_asked_ = false;
  // Restored once only: afterwards the hooks own their state.
  if (const auto entries = std::exchange(hook_state_, std::nullopt)) {
    for (const auto& hook : hooks_) {
      if (is_called(*hook)) hook->restore_state(*entries);
    }
  }
  for (const auto& hook : hooks_) {
    if (is_called(*hook)) hook->before_train(view());
  }
}

void Trainer::finish() {
  for (const auto& hook : hooks_) {
    if (is_called(*hook)) hook->after_train(view());
  }
}

void Trainer::after_step(const StepView& step) {
  ++steps_done_;
  const TrainingView training = view();
  for (const auto& hook : hooks_) {
    if (is_called(*hook) && hook->after_step(training, step) == HookVerdict::kStop) stop_is_asked_ = true;
  }
  if (training.stop_delay == 0) stop_ = stop_is_asked_;
}

std::uint64_t Trainer::next_change_step(std::uint64_t steps_done) const {
  std::uint64_t next = kNoSyncStep;
  for (const auto& hook : hooks_) next = std::min(next, hook->next_change_step(steps_done));
  return next;
}

void Trainer::change() {
  std::vector<bool> frozen = trained_->frozen();
  frozen.resize(static_cast<std::size_t>(net_.layout().num_segments()));
  TrainingControl control(net_.layout(), steps_done_, parameters_.span(), ema_.shadow(), frozen);
  for (const auto& hook : hooks_) {
    if (hook->next_change_step(steps_done_) != steps_done_) continue;
    TERNGRAD_REQUIRE(hook->on_every_rank(), "[hook] a hook that changes the run must run on every rank");
    hook->before_step(control);
  }
  *trained_ = TrainedTensors(net_.layout(), std::move(frozen));
}

std::uint64_t Trainer::next_sync_step() const {
  std::uint64_t next = kNoSyncStep;
  for (const auto& hook : hooks_) {
    if (is_called(*hook)) next = std::min(next, hook->next_sync_step(steps_done_));
  }
  return next;
}

}  // namespace terngrad
