#include "trainers/device_trainer.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "kernels/copy.h"
#include "kernels/errors.h"
#include "trainers/ema.h"

namespace terngrad {
namespace {

/// How long a burst is to take: long beside the host's part of it, short enough for a person to wait.
constexpr double kBurstSeconds = 0.2;

DeviceReplica& first_of(const DeviceTrainerParts& parts) {
  TERNGRAD_REQUIRE(!parts.replicas.empty(), "[DeviceTrainer] needs a replica");
  return *parts.replicas.front();
}

/// Calls body(i) for every i below `count`, each in a thread of its own if there are several, since they wait for each
/// other. @throws the first exception that is not only about another one
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

// The base refers to parts that move to parts_ only after it is made; they stay where they are in memory.
DeviceTrainer::DeviceTrainer(DeviceTrainerParts parts, const TrainerOptions& options)
    : Trainer(first_of(parts).net(), first_of(parts).optimizer(), parts.schedule, parts.workers, options),
      parts_(std::move(parts)) {
  int num_workers = 0;
  for (const auto& replica : parts_.replicas) num_workers += replica->num_workers();
  TERNGRAD_REQUIRE(num_workers == workers().num_local_workers, "[DeviceTrainer] the process has ",
                   workers().num_local_workers, " workers, its replicas ", num_workers);
  // As the optimizer has them at the start.
  for (const Optimizer::Slot& slot : chief().optimizer().slots()) {
    slots_.emplace_back(static_cast<std::int64_t>(slot.values.size()));
    copy<float>(slot.values, slots_.back().span(), chief().net().stream());
  }
  chief().net().stream().synchronize();
}

std::vector<Optimizer::Slot> DeviceTrainer::slots() {
  std::vector<Optimizer::Slot> slots = chief().optimizer().slots();
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i].values = slots_[i].span();
  return slots;
}

ReplicaState DeviceTrainer::state_of(std::size_t replica) {
  ReplicaState state{.parameters = parameters(),
                     .ema = ema().shadow(),
                     .state_ema = state_ema().shadow(),
                     .states = {},
                     .slots = slots()};
  int first = 0;
  for (std::size_t r = 0; r < replica; ++r) first += parts_.replicas[r]->num_workers();
  for (int w = 0; w < parts_.replicas[replica]->num_workers(); ++w) state.states.push_back(this->state(first + w));
  return state;
}

void DeviceTrainer::load() {
  for (std::size_t r = 0; r < parts_.replicas.size(); ++r) {
    parts_.replicas[r]->load(state_of(r));
    // What a checkpoint restored besides slots.
    if (r > 0) parts_.replicas[r]->optimizer().restore_state(chief().optimizer().state());
  }
}

void DeviceTrainer::store() {
  // The first last: the average of its worker 0's state is the one that counts.
  for (std::size_t r = parts_.replicas.size(); r-- > 0;) parts_.replicas[r]->store(state_of(r));
}

std::uint64_t DeviceTrainer::run() {
  load();
  begin();
  try {
    while (!is_done()) run_burst();
  } catch (...) {
    try {
      store();
    } catch (const Error&) {
      // A GPU that has failed has no state to give; the first error says why.
    }
    throw;
  }
  store();
  finish();
  return steps_done();
}

std::uint64_t DeviceTrainer::burst_length() const {
  const std::uint64_t left = std::min(options().total_steps, next_look()) - steps_done();
  if (parts_.on_nonfinite != OnNonfinite::kStop || seconds_per_step_ == 0) return 1;
  const double wanted = std::clamp(kBurstSeconds / seconds_per_step_, 1.0, static_cast<double>(kMaxBurst));
  const auto most = static_cast<std::uint64_t>(parts_.replicas[0]->max_burst());
  const std::uint64_t longest = std::min({left, most, static_cast<std::uint64_t>(wanted)});
  // Within a burst a step that is to stop the run keeps later ones from being applied: by the mark of their exchange.
  std::uint64_t length = 1;
  while (length < longest && parts_.exchange_of(steps_done() + length) == parts_.exchange_of(steps_done())) ++length;
  return length;
}

void DeviceTrainer::prepare(std::uint64_t count) {
  std::vector<cuda::StepInput> inputs;
  for (std::uint64_t step = steps_done(); step < steps_done() + count; ++step) {
    inputs.push_back({.rate = chief().optimizer().rate(static_cast<float>(learning_rate(step)), step - steps_done()),
                      .ema_decay = static_cast<float>(Ema::decay_at(options().ema_decay, step))});
  }
  for (const auto& replica : parts_.replicas) replica->prepare(steps_done(), inputs);
}

std::uint64_t DeviceTrainer::prepare_burst() {
  const std::uint64_t length = burst_length();
  if (length > 1) {
    try {
      prepare(length);
      return length;
    } catch (...) {
      // Of the steps before the one whose examples cannot be read each counts: they are run one by one.
      seconds_per_step_ = kBurstSeconds;
    }
  }
  prepare(1);
  return 1;
}

void DeviceTrainer::run_burst() {
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t first_step = steps_done();
  const std::uint64_t count = prepare_burst();
  Records records(parts_.replicas.size());
  std::atomic<bool> lost = false;
  in_parallel(parts_.replicas.size(), [&](std::size_t r) {
    records[r] = parts_.replicas[r]->run(first_step, static_cast<int>(count), parts_.exchange_of, lost);
  });
  seconds_per_step_ =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(count);
  set_steps_computed(first_step + count);
  // Hooks look after the last step at the earliest.
  if (next_look() <= first_step + count) store();
  for (std::size_t i = 0; i < count; ++i) {
    if (parts_.on_nonfinite == OnNonfinite::kStop && records[0][i].skipped != 0) {
      // Nothing was applied from this step on.
      const std::uint64_t step = first_step + i;
      chief().exchange(parts_.exchange_of(step)).report(step);
      TERNGRAD_THROW(NonFiniteError, "step ", step, ": a gradient holds NaN or infinity");
    }
    report_step(records, i, seconds_per_step_);
  }
}

ExchangeReport DeviceTrainer::report_of(std::size_t exchange, std::uint64_t step) {
  // Where the run goes on, the GPU is asked what was not finite, after every step. Where it stops, run_burst has asked.
  const bool stops = parts_.on_nonfinite == OnNonfinite::kStop;
  ExchangeReport sum = stops ? ExchangeReport{} : chief().exchange(exchange).report(step);
  sum.scalers = sum.gradient = sum.mean = {};
  for (const auto& replica : parts_.replicas) {
    const ExchangeReport own = replica->exchange(exchange).bytes();
    for (LegBytes ExchangeReport::*leg : {&ExchangeReport::scalers, &ExchangeReport::gradient, &ExchangeReport::mean}) {
      (sum.*leg).sent += (own.*leg).sent;
      (sum.*leg).received += (own.*leg).received;
    }
  }
  return sum;
}

void DeviceTrainer::report_step(const Records& records, std::size_t index, double seconds) {
  const std::uint64_t step = steps_done();
  const std::size_t exchange = parts_.exchange_of(step);
  double loss = 0;
  std::int64_t correct = 0;
  TransformCounts counts;
  for (const auto& of_replica : records) {
    const cuda::StepRecord& record = of_replica[index];
    loss += record.loss;
    correct += record.num_correct;
    counts +=
        {.zeroed_elements = record.counters.zeroed_elements, .clipped_gradients = record.counters.clipped_gradients};
  }
  const auto num_local = workers().num_local_workers;
  const std::int64_t local_examples = options().batch_size / workers().num_workers * num_local;
  const ExchangeReport report = report_of(exchange, step);
  const auto gradient = [this](int segment) -> std::span<const float> {
    gradient_ = chief().gradient(segment);
    return gradient_;
  };
  const auto decode_sent = [this, exchange](int segment, std::span<float> out) {
    return chief().exchange(exchange).decode_local(0, segment, out);
  };
  after_step({
      .step = step,
      .loss = loss / num_local,
      .accuracy = static_cast<double>(correct) / static_cast<double>(local_examples),
      .learning_rate = learning_rate(step),
      .step_seconds = seconds,
      .parts_are_timed = false,
      .transform_counts = counts,
      .report = report,
      .telemetry = telemetry_of(gradient, decode_sent),
      .gradient = gradient,
      .decode_sent = decode_sent,
  });
}

}  // namespace terngrad
