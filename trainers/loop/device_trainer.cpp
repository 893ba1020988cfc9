#include "trainers/loop/device_trainer.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include "compress/memory/shared_state.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/stopwatch.h"
#include "trainers/loop/device_replica.h"
#include "trainers/loop/step_reduction.h"
#include "trainers/optim/ema.h"

namespace terngrad {
namespace {

/// Target duration of a burst: long compared with the host's work per burst, short enough for interactive use.
constexpr double kBurstSeconds = 0.2;

DeviceReplica& first_of(const DeviceTrainerParts& parts) {
  TERNGRAD_REQUIRE(!parts.replicas.empty(), "[DeviceTrainer] needs a replica");
  return *parts.replicas.front();
}

/// The watchdog's message about a burst that hangs.
std::string burst_text(std::uint64_t first_step, std::uint64_t count, double seconds) {
  std::ostringstream text;
  text << "steps " << first_step << " to " << first_step + count - 1 << " have not ended on GPUs in " << seconds
       << " seconds";
  return text.str();
}

/// Calls body(i) for every i below `count`, each in its own thread if there are several, since they wait for each
/// other. @throws the first exception that is not a CommunicationError, which may only be the consequence of another
/// error, else the first one
template <class Body>
void in_parallel(std::size_t count, const Body& body) {
  if (count == 1) return body(0);
  std::vector<std::exception_ptr> errors(count);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        try {
          body(i);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
    }
  }
  std::exception_ptr lost;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    try {
      std::rethrow_exception(error);
    } catch (const CommunicationError&) {
      if (!lost) lost = error;
    }
  }
  if (lost) std::rethrow_exception(lost);
}

}  // namespace

// The base class holds references to parts that are moved to parts_ afterwards; the objects keep their addresses.
DeviceTrainer::DeviceTrainer(DeviceTrainerParts parts, const TrainerOptions& options)
    : Trainer(first_of(parts).net(), first_of(parts).optimizer(), parts.schedule, parts.workers, options),
      parts_(std::move(parts)) {
  int num_workers = 0;
  for (const auto& replica : parts_.replicas) num_workers += replica->num_workers();
  TERNGRAD_REQUIRE(num_workers == workers().num_local_workers, "[DeviceTrainer] the process has ",
                   workers().num_local_workers, " workers, its replicas ", num_workers);
  if (const std::vector<std::uint64_t>& stages = chief().stages(); stages.size() > 1) {
    parts_.exchange_of = [stages](std::uint64_t step) {
      return static_cast<std::size_t>(std::ranges::upper_bound(stages, step) - stages.begin() - 1);
    };
  }
  // Initial values of the slots.
  for (const Optimizer::Slot& slot : chief().optimizer().slots()) {
    slots_.emplace_back(static_cast<std::int64_t>(slot.values.size()));
    copy<float>(slot.values, slots_.back().span(), chief().net().stream());
  }
  chief().net().stream().synchronize();
  if (const TrainingView::Memories kept = memories_of(chief().memory()); kept.layout != nullptr) {
    for (const auto& replica : parts_.replicas) {
      kept_.emplace_back();
      for (int sender = 0; sender < replica->memory()->num_local_workers(); ++sender) {
        kept_.back().push_back(zeros<float>(kept.layout->flat_elements()));
      }
    }
  }
  shared_ = zeros<float>(chief().shared().layout().flat_elements());
  if ((workers().communicator->size() > 1 || parts_.replicas.size() > 1) && parts_.timeout_seconds > 0) {
    watchdog_ = std::make_unique<Watchdog>(parts_.on_hang);
  }
}

std::vector<Optimizer::Slot> DeviceTrainer::slots() {
  std::vector<Optimizer::Slot> slots = chief().optimizer().slots();
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].values = slots_[i].span();
  return slots;
}

TrainingView::Memories DeviceTrainer::memories() {
  TrainingView::Memories kept = memories_of(chief().memory());
  kept.of_workers.clear();
  for (auto& of_replica : kept_) {
    for (Buffer<float>& state : of_replica) kept.of_workers.push_back(state.span());
  }
  return kept;
}

TrainingView::Shared DeviceTrainer::shared() { return shared_state_of(chief().shared(), shared_.span()); }

ReplicaState DeviceTrainer::state_of(std::size_t replica) {
  ReplicaState state{.parameters = parameters(),
                     .ema = ema().shadow(),
                     .state_ema = state_ema().shadow(),
                     .states = {},
                     .kept = {},
                     .shared = shared_.span(),
                     .slots = slots()};
  int first = 0;
  for (std::size_t r = 0; r < replica; ++r) first += parts_.replicas[r]->num_workers();
  for (int w = 0; w < parts_.replicas[replica]->num_workers(); ++w) {
    state.states.push_back(this->state(first + w));
  }
  if (kept_.empty()) return state;
  for (Buffer<float>& kept : kept_[replica]) state.kept.push_back(kept.span());
  return state;
}

void DeviceTrainer::load() {
  for (std::size_t r = 0; r < parts_.replicas.size(); ++r) {
    parts_.replicas[r]->load(state_of(r));
    // Optimizer state besides slots, restored from a checkpoint.
    if (r > 0) parts_.replicas[r]->optimizer().restore_state(chief().optimizer().state());
  }
}

void DeviceTrainer::store() {
  // Replica 0 last: the state average of its worker 0 is the one to keep.
  for (std::size_t r = parts_.replicas.size(); r-- > 0;) parts_.replicas[r]->store(state_of(r));
}

void DeviceTrainer::show_replica(int replica) {
  const auto index = static_cast<std::size_t>(replica);
  parts_.replicas.at(index)->store(state_of(index));
}

DeviceTrainer::~DeviceTrainer() = default;

std::uint64_t DeviceTrainer::run() {
  load();
  begin();
  try {
    while (!is_done()) run_burst();
  } catch (...) {
    try {
      store();
    } catch (const Error&) {
      // A failed GPU has no state to store; the first error is rethrown below.
    }
    // No other process may wait for this process's GPUs, nor these for others when they are destroyed.
    if (workers().communicator->size() > 1) {
      for (const auto& replica : parts_.replicas) replica->give_up();
    }
    throw;
  }
  store();
  finish();
  return steps_done();
}

std::uint64_t DeviceTrainer::burst_length() const {
  const std::uint64_t period = options().rebroadcast_steps;
  const std::uint64_t end = std::min({options().total_steps, next_sync_step(), next_multiple(period, steps_done()),
                                      next_change_step(steps_done() + 1)});
  const std::uint64_t left = end - steps_done();
  if (parts_.on_nonfinite != OnNonfinite::kStop || seconds_per_step_ == 0) return 1;
  const double wanted = std::clamp(kBurstSeconds / seconds_per_step_, 1.0, static_cast<double>(kMaxBurst));
  const auto most = static_cast<std::uint64_t>(parts_.replicas[0]->max_burst());
  const std::uint64_t longest = std::min({left, most, static_cast<std::uint64_t>(wanted)});
  // All steps of a burst use the same exchange: its skip flag drops the steps after one that stops the run.
  std::uint64_t length = 1;
  while (length < longest && parts_.exchange_of(steps_done() + length) == parts_.exchange_of(steps_done())) ++length;
  return length;
}

std::uint64_t DeviceTrainer::min_over_ranks(std::uint64_t number) const {
  std::uint32_t max_complement = ~static_cast<std::uint32_t>(number);
  workers().communicator->all_reduce_max({&max_complement, 1});
  return ~max_complement;
}

std::uint64_t DeviceTrainer::agreed_length() {
  const std::uint64_t length = min_over_ranks(stop_is_asked() ? 0 : burst_length());
  if (length > 0) return length;
  stop();
  return 1;
}

std::vector<cuda::StepInput> DeviceTrainer::step_inputs(std::uint64_t count) {
  std::vector<cuda::StepInput> inputs;
  chief().optimizer().use_exchange(parts_.exchange_of(steps_done()), chief().net().stream());
  for (std::uint64_t step = steps_done(); step < steps_done() + count; ++step) {
    inputs.push_back({.rates = chief().optimizer().rates(static_cast<float>(learning_rate(step)), step - steps_done()),
                      .ema_decay = static_cast<float>(Ema::decay_at(options().ema_decay, step))});
  }
  return inputs;
}

void DeviceTrainer::prepare(std::uint64_t count) {
  const std::vector<cuda::StepInput> inputs = step_inputs(count);
  auto mark = std::chrono::steady_clock::now();
  for (const auto& replica : parts_.replicas) replica->prepare(steps_done(), inputs);
  prepare_seconds_ += lap_seconds(mark);
}

bool DeviceTrainer::can_prepare(std::uint64_t count) {
  try {
    prepare(count);
    return true;
  } catch (...) {
    // Run steps one by one up to the one whose examples cannot be read, so that none before it is lost.
    seconds_per_step_ = kBurstSeconds;
    return false;
  }
}

std::uint64_t DeviceTrainer::prepare_burst(std::uint64_t length) {
  if (length > 1 && min_over_ranks(can_prepare(length) ? 1 : 0) == 1) return length;
  prepare(1);
  return 1;
}

// Avoids a deadlock: threads of a process share the driver's locks, and allocating memory, loading a kernel or
// instantiating a graph may wait for all GPUs with peer access (NCCL issue 744: cudaFree and cudaMalloc synchronise
// them). If an NCCL kernel on one GPU waits for another GPU whose thread waits in such a call, neither continues. So no
// such call may happen between the first and last NCCL operation: a step runs once beforehand, and graphs are created
// while all threads of the process meet at a barrier.
void DeviceTrainer::rehearse(std::uint64_t num_prepared) {
  const std::vector<cuda::StepInput> inputs = step_inputs(num_prepared);
  in_parallel(parts_.replicas.size(), [&](std::size_t r) { parts_.replicas[r]->rehearse(steps_done(), inputs); });
  has_rehearsed_ = true;
  load();
  prepare(num_prepared);
}

DeviceTrainer::Outcomes DeviceTrainer::run_steps(std::uint64_t first_step, std::uint64_t count) {
  Outcomes outcomes(parts_.replicas.size());
  std::atomic<bool> lost = false;
  const auto run = [&] {
    std::barrier meeting(std::ssize(parts_.replicas));
    in_parallel(parts_.replicas.size(), [&](std::size_t r) {
      try {
        outcomes[r] = parts_.replicas[r]->run(first_step, static_cast<int>(count), parts_.exchange_of, lost,
                                              [&meeting] { meeting.arrive_and_wait(); });
      } catch (...) {
        meeting.arrive_and_drop();
        throw;
      }
    });
  };
  Communicator& processes = *workers().communicator;
  try {
    if (watchdog_ == nullptr) {
      run();
    } else {
      watchdog_->watch(parts_.timeout_seconds, burst_text(first_step, count, parts_.timeout_seconds), run);
    }
  } catch (const CommunicationError& error) {
    if (processes.size() == 1) throw;
    // Another process is lost. It is identified by its absence from the following collective, within half the timeout.
    if (parts_.timeout_seconds > 0) processes.set_timeout(parts_.timeout_seconds / 2);
    report_failed_steps(workers(), error.what());
  }
  return outcomes;
}

void DeviceTrainer::rebroadcast_at(std::uint64_t steps_done) {
  if (!rebroadcasts_after(steps_done)) return;
  store();
  rebroadcast();
  for (std::size_t r = 0; r < parts_.replicas.size(); ++r) parts_.replicas[r]->load_shared(state_of(r));
}

void DeviceTrainer::change_run() {
  store();
  change();
  for (const auto& replica : parts_.replicas) replica->set_trained(trained());
  has_rehearsed_ = false;
  load();
}

void DeviceTrainer::run_burst() {
  if (next_change_step(steps_done()) == steps_done()) change_run();
  const std::uint64_t first_step = steps_done();
  const std::uint64_t length = agreed_length();
  // The time is measured from here, as another process may have come late, for instance from a hook that evaluates.
  const auto start = std::chrono::steady_clock::now();
  prepare_seconds_ = 0;
  const std::uint64_t count = prepare_burst(length);
  const double data_seconds = prepare_seconds_ / static_cast<double>(count);
  if (parts_.replicas.size() > 1 && !has_rehearsed_) rehearse(count);
  const Outcomes outcomes = run_steps(first_step, count);
  // With kStop no rank has applied a step from the first skipped step on.
  std::size_t num_applied = count;
  if (parts_.on_nonfinite == OnNonfinite::kStop) {
    const auto skipped = std::ranges::find(outcomes[0], true, &StepOutcome::skipped);
    num_applied = static_cast<std::size_t>(skipped - outcomes[0].begin());
  }
  std::vector<ExchangeReport> reports;
  std::vector<LocalStep> steps;
  for (std::size_t i = 0; i < num_applied; ++i) {
    reports.push_back(report_of(parts_.exchange_of(first_step + i), first_step + i));
    steps.push_back(local_step(outcomes, i, reports[i]));
  }
  const std::vector<StepSummary> summaries = summarize_steps(workers(), steps, false);
  seconds_per_step_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(count);
  set_steps_computed(first_step + count);
  if (num_applied == count) rebroadcast_at(first_step + count);
  // Hooks read tensors after the last step of a burst only.
  if (next_sync_step() <= first_step + count) store();
  for (std::size_t i = 0; i < num_applied; ++i) {
    report_step(summaries[i], reports[i], seconds_per_step_, data_seconds);
  }
  if (num_applied == count) return;
  const std::uint64_t step = first_step + num_applied;
  chief().report(parts_.exchange_of(step), step);
  TERNGRAD_THROW(NonFiniteError, "step ", step, ": a gradient holds NaN or infinity");
}

ExchangeReport DeviceTrainer::report_of(std::size_t exchange, std::uint64_t step) {
  // Query the GPU for non-finite tensors after every step, except with kStop, where run_burst does it.
  const bool stops = parts_.on_nonfinite == OnNonfinite::kStop;
  ExchangeReport sum = stops ? ExchangeReport{} : chief().report(exchange, step);
  // Bytes of all replicas of this process.
  ExchangeBytes& bytes = sum;
  bytes = {};
  for (const auto& replica : parts_.replicas) bytes += replica->bytes(exchange);
  return sum;
}

LocalStep DeviceTrainer::local_step(const Outcomes& outcomes, std::size_t index, const ExchangeReport& report) const {
  LocalStep step{.losses = {}, .counts = {}, .bytes = report};
  for (const auto& of_replica : outcomes) {
    const StepOutcome& outcome = of_replica[index];
    step.losses.insert(step.losses.end(), outcome.losses.begin(), outcome.losses.end());
    step.counts += outcome.counts;
  }
  return step;
}

void DeviceTrainer::report_step(const StepSummary& summary, ExchangeReport report, double seconds,
                                double data_seconds) {
  static_cast<ExchangeBytes&>(report) = summary.bytes;
  const std::size_t exchange = parts_.exchange_of(steps_done());
  const StepTensors tensors{
      .gradient = [this](int local_worker, int segment) -> std::span<const float> {
        std::size_t replica = 0;
        while (local_worker >= parts_.replicas.at(replica)->num_workers()) {
          local_worker -= parts_.replicas[replica++]->num_workers();
        }
        gradient_ = parts_.replicas[replica]->gradient(local_worker, segment);
        return gradient_;
      },
      .group_mean = [this, exchange](int segment) -> std::span<const float> {
        group_mean_ = chief().group_mean(exchange, segment);
        return group_mean_;
      },
      .encoded = [this, exchange](int segment) -> std::span<const float> {
        encoded_ = chief().encoded(exchange, segment);
        return encoded_;
      },
      .decode_sent = [this, exchange](int segment,
                                      std::span<float> out) { return chief().decode_sent(exchange, segment, out); },
      .mean = [this](int segment) -> std::span<const float> {
        mean_ = chief().mean(segment);
        return mean_;
      },
  };
  StepView view = step_view(summary, report, tensors);
  view.step_seconds = seconds;
  view.data_seconds = data_seconds;
  view.parts_are_timed = false;
  after_step(view);
}

}  // namespace terngrad
