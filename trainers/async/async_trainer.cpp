#include "trainers/async/async_trainer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

#include "compress/plan/telemetry.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "kernels/runtime/stopwatch.h"
#include "trainers/checkpoint/checkpoint.h"
#include "trainers/loop/step_reduction.h"

namespace terngrad {
namespace {

constexpr const char* kCountsKey = "async_push_counts";
constexpr const char* kVersionsKey = "async_pulled_versions";

std::string pulled_group(int worker) { return fmt::format("pulled/worker-{:04}", worker); }

std::int64_t bytes_of(const Parcels& message) {
  const std::span<const std::uint64_t> sizes = message.sizes();
  return static_cast<std::int64_t>(std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0}));
}

/// A group of all workers: this process keeps the states of all of them.
WorkerGroup all_workers(int num_workers) { return make_worker_group(num_workers, make_self_communicator()); }

}  // namespace

// The base class holds references to parts that are moved to parts_ afterwards; the objects keep their addresses.
AsyncTrainer::AsyncTrainer(AsyncTrainerParts parts, const TrainerOptions& options)
    : Trainer(*parts.net, *parts.optimizer, parts.schedule, all_workers(parts.server.num_workers), options),
      parts_(std::move(parts)),
      stream_(Device::cpu(), options.num_threads),
      server_(parts_.protocol, parts_.server, parameters(), *parts_.optimizer) {
  const std::size_t num_here = parts_.mailbox == nullptr ? static_cast<std::size_t>(parts_.server.num_workers) : 0;
  TERNGRAD_REQUIRE(parts_.workers.size() == num_here, "[async] this process has ", num_here, " workers, got ",
                   parts_.workers.size());
}

AsyncTrainer::~AsyncTrainer() = default;

std::uint64_t AsyncTrainer::run() {
  if (next_change_step(steps_done()) != kNoSyncStep) {
    throw NotSupported("[hook] asynchronous training takes no changes by hooks");
  }
  // Before the hooks, which may save the workers' pulled parameters.
  if (parts_.mailbox == nullptr) let_workers_begin();
  begin();
  step_begin_ = std::chrono::steady_clock::now();
  if (parts_.mailbox == nullptr) {
    emulate();
    finish();
  } else {
    serve();
    // Before drain_workers, so that the last save does not depend on answers of the workers.
    finish();
    drain_workers();
  }
  return steps_done();
}

void AsyncTrainer::emulate() {
  while (!is_done()) emulate_round();
}

void AsyncTrainer::let_workers_begin() {
  for (const auto& worker : parts_.workers) {
    Parcels pull;
    Parcels answer;
    worker->write_pull(pull);
    const auto number = static_cast<int>(server_.label_of(pull).worker);
    server_.answer_pull(number, state(number), answer);
    worker->begin(answer);
  }
  for (std::size_t i = 0; i < restored_.size(); ++i) {
    parts_.workers[i]->set_pulled(restored_[i].version, restored_[i].parameters.span());
    server_.set_pulled(static_cast<int>(i), restored_[i].version);
  }
  restored_.clear();
}

void AsyncTrainer::emulate_round() {
  auto mark = std::chrono::steady_clock::now();
  for (const auto& worker : parts_.workers) worker->fetch();
  step_.data_seconds += lap_seconds(mark);
  // Workers of a round are independent of each other, so they compute in parallel, unless a net uses several threads.
  const auto num_workers = static_cast<std::int64_t>(parts_.workers.size());
  const bool side_by_side = num_workers > 1 && parts_.threads_per_worker == 1;
  parallel_for(side_by_side ? stream_.num_threads() : 1, num_workers, 1, [&](std::int64_t first, std::int64_t last) {
    Stream one(Device::cpu(), side_by_side ? 1 : stream_.num_threads());
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
      parts_.workers[i]->compute(one);
    }
  });
  step_.compute_seconds += lap_seconds(mark);
  for (const auto& worker : parts_.workers) {
    Parcels push;
    Parcels answer;
    worker->write_push(/*asks_to_stop=*/false, push, stream_);
    step_.report.measure_seconds += worker->measure_seconds();
    step_.report.encode_seconds += worker->encode_seconds();
    take(push, answer);
    mark = std::chrono::steady_clock::now();
    worker->take(answer);
    step_.report.wire_seconds += lap_seconds(mark);
  }
  end_step();
}

void AsyncTrainer::serve() {
  std::vector<int> ranks(static_cast<std::size_t>(parts_.mailbox->size()) - 1);
  std::iota(ranks.begin(), ranks.end(), 1);
  Parcels message;
  while (!is_done()) {
    const int from = parts_.mailbox->receive(ranks, message);
    const MessageLabel label = server_.label_of(message);
    const auto worker = static_cast<int>(label.worker);
    require_worker_of(from, worker);
    Parcels answer;
    if (label.kind == MessageKind::kPull) {
      server_.answer_pull(worker, state(worker), answer);
    } else if (label.kind == MessageKind::kPush) {
      take(message, answer);
    } else {
      TERNGRAD_THROW(CommunicationError, "[async] worker ", worker, " of rank ", from, " sends a message of kind ",
                     static_cast<int>(label.kind), " while the run continues");
    }
    // Answer before the step ends, so that the worker continues while hooks evaluate and save.
    parts_.mailbox->send(from, std::move(answer));
    if (step_.num_pushes == workers().num_workers) end_step();
  }
}

void AsyncTrainer::drain_workers() {
  std::vector<int> ranks(static_cast<std::size_t>(parts_.mailbox->size()) - 1);
  std::iota(ranks.begin(), ranks.end(), 1);
  Parcels message;
  while (!ranks.empty()) {
    const int from = parts_.mailbox->receive(ranks, message);
    const MessageLabel label = server_.label_of(message);
    require_worker_of(from, static_cast<int>(label.worker));
    if (label.kind == MessageKind::kLeave) {
      std::erase(ranks, from);
      continue;
    }
    Parcels answer;
    server_.answer_stop(static_cast<int>(label.worker), steps_done(), answer);
    parts_.mailbox->send(from, std::move(answer));
  }
  parts_.mailbox->flush();
}

void AsyncTrainer::require_worker_of(int from, int worker) const {
  const WorkerRange range = worker_range(workers().num_workers, from - 1, parts_.mailbox->size() - 1);
  if (worker >= range.first_local_worker && worker < range.first_local_worker + range.num_local_workers) return;
  TERNGRAD_THROW(CommunicationError, "[async] rank ", from, " sends a message of worker ", worker,
                 ", which is another rank's");
}

void AsyncTrainer::take(const Parcels& push, Parcels& answer) {
  const auto worker = static_cast<int>(server_.label_of(push).worker);
  const PushResult result = server_.take_push(push, steps_done(), learning_rate(steps_done()), state(worker));
  auto mark = std::chrono::steady_clock::now();
  server_.answer_push(worker, answer);
  ++step_.num_pushes;
  ++step_.counts.staleness[result.staleness];
  step_.counts.dropped += result.is_dropped ? 1 : 0;
  step_.counts.skipped += result.is_skipped ? 1 : 0;
  step_.loss += result.note.loss;
  step_.num_correct += result.note.num_correct;
  step_.transform_counts +=
      TransformCounts{.zeroed_elements = static_cast<std::int64_t>(result.note.zeroed_elements),
                      .clipped_gradients = static_cast<std::int64_t>(result.note.clipped_gradients)};
  ExchangeReport& report = step_.report;
  if (report.nonfinite.empty()) report.nonfinite = result.nonfinite;
  // Count bytes as if each worker and the server were a process of its own.
  report.gradient.sent += bytes_of(push);
  report.mean.received += bytes_of(answer);
  report.servers += {.sent = bytes_of(answer), .received = bytes_of(push)};
  report.decode_seconds += result.decode_seconds;
  report.wire_seconds += lap_seconds(mark);
  step_.update_seconds += result.update_seconds;
  is_asked_to_stop_ = is_asked_to_stop_ || result.note.asks_to_stop;
}

void AsyncTrainer::end_step() {
  const std::uint64_t step = steps_done();
  Step ended = std::exchange(step_, {});
  counts_ += ended.counts;
  // A worker's process asked to stop.
  if (is_asked_to_stop_) stop_after_step();
  const bool has_applied = ended.counts.applied() > 0;
  if (has_applied) {
    ema().update(parameters(), step, stream_);
    state_ema().update(state(0), step, stream_);
  }
  ended.report.skipped = !has_applied;
  ended.report.num_workers = workers().num_workers;
  ended.report.num_servers = 1;
  const bool is_alone = parts_.mailbox == nullptr;
  StepTensors tensors;
  if (is_alone) {
    AsyncWorker& first = *parts_.workers[0];
    tensors.gradient = [this](int local_worker, int segment) {
      return parts_.workers[static_cast<std::size_t>(local_worker)]->gradient(segment);
    };
    tensors.encoded = [&first](int segment) { return first.encoded(segment); };
    tensors.decode_sent = [&first](int segment, std::span<float> out) { return first.decode_sent(segment, out); };
  }
  const ExchangeReport& report = ended.report;
  const StepSummary summary{.loss = ended.loss / workers().num_workers,
                            .num_correct = static_cast<std::int64_t>(ended.num_correct),
                            .counts = ended.transform_counts,
                            .bytes = report};
  StepView view = step_view(summary, report, tensors);
  view.step_seconds = lap_seconds(step_begin_);
  view.parts_are_timed = is_alone;
  view.compute_seconds = ended.compute_seconds;
  view.update_seconds = ended.update_seconds;
  view.data_seconds = ended.data_seconds;
  view.exposed_seconds = report.measure_seconds + report.encode_seconds + report.wire_seconds + report.decode_seconds;
  view.pushes = &ended.counts;
  after_step(view);
  step_begin_ = std::chrono::steady_clock::now();
}

TrainingView::Memories AsyncTrainer::memories() {
  TrainingView::Memories kept;
  for (const auto& worker : parts_.workers) {
    TrainingView::Memories own = memories_of(worker->memory());
    if (own.layout == nullptr) return kept;
    own.of_workers.insert(own.of_workers.begin(), kept.of_workers.begin(), kept.of_workers.end());
    kept = std::move(own);
  }
  return kept;
}

void AsyncTrainer::add_to_view(TrainingView& view) {
  if (parts_.mailbox != nullptr)
    view.services.send_heartbeat = [mailbox = parts_.mailbox.get()] { mailbox->send_heartbeat(); };
  view.extra_metadata = server_.state();
  view.extra_metadata[kCountsKey] = counts_.to_text();
  if (parts_.workers.empty()) return;
  std::vector<std::uint64_t> versions;
  for (const auto& worker : parts_.workers) {
    versions.push_back(worker->version());
    view.extra_tensors.push_back({pulled_group(worker->number()), worker->pulled()});
  }
  view.extra_metadata[kVersionsKey] = fmt::format("{}", fmt::join(versions, " "));
}

void AsyncTrainer::restore_extra(const Checkpoint& checkpoint) {
  const std::map<std::string, std::string>& entries = checkpoint.state().extra_metadata;
  server_.restore_state(entries);
  const auto counts = entries.find(kCountsKey);
  if (counts == entries.end()) TERNGRAD_THROW(DataError, "[async] the checkpoint has no ", kCountsKey);
  counts_ = parse_push_counts(counts->second);
  restored_.clear();
  const auto versions = entries.find(kVersionsKey);
  if (parts_.workers.empty() || versions == entries.end()) return;
  std::istringstream in(versions->second);
  for (const auto& worker : parts_.workers) {
    Pulled pulled{.version = 0, .parameters = zeros<float>(parts_.protocol->layout.flat_elements())};
    in >> pulled.version;
    if (!in || pulled.version > server_.version()) {
      TERNGRAD_THROW(DataError, "[async] the checkpoint has ", kVersionsKey, " '", versions->second, "', expected ",
                     parts_.workers.size(), " numbers of at most ", server_.version());
    }
    checkpoint.read_group(pulled_group(worker->number()), parts_.protocol->layout, pulled.parameters.span());
    restored_.push_back(std::move(pulled));
  }
}

}  // namespace terngrad
