// Small asynchronous training runs: server and workers from the parts of SmallRun.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/trainers/small_training.h"
#include "trainers/async/async_rank.h"
#include "trainers/async/async_trainer.h"

namespace terngrad::testing {

struct SmallAsync {
  SmallRun run;
  std::string optimizer = "momentum";
  std::optional<float> scale = std::nullopt;  // nullopt: 1 / number of workers
  std::optional<std::uint64_t> max_staleness = std::nullopt;
  FloatCodec::Width parameters = FloatCodec::Width::kFloat32;
  /// Connects the ranks; nullptr: all workers in this process.
  std::shared_ptr<Mailbox> mailbox = nullptr;
};

inline std::unique_ptr<Net> make_small_net(const SmallRun& run, int worker) {
  NetOptions net;
  net.first_local_worker = worker;
  net.examples_per_worker = static_cast<int>(run.batch_size / run.num_workers);
  net.seed = run.seed;
  const std::lock_guard lock(net_mutex());
  return make_net(run.net, {kSmallImage, kSmallImage, 1}, 10, net);
}

inline std::shared_ptr<const PushProtocol> make_small_protocol(const SmallAsync& async, const Net& net) {
  CodecPlanOptions codecs;
  codecs.codec = spec_of(async.run.codec, "clip_factor=2.5,sharing=none");
  codecs.context.num_workers = async.run.num_workers;
  return std::make_shared<const PushProtocol>(net.layout(), net.state_layout(), CodecPlan(net.layout(), codecs),
                                              async.parameters, 7, "");
}

inline TrainerOptions small_async_options(const SmallRun& run) {
  TrainerOptions options;
  options.batch_size = run.batch_size;
  options.total_steps = run.total_steps;
  options.seed = run.seed;
  options.num_threads = run.num_threads;
  options.num_data_threads = run.num_data_threads;
  return options;
}

inline std::unique_ptr<AsyncWorker> make_small_worker(const SmallAsync& async, int worker) {
  static const std::shared_ptr<const Dataset> digits = small_digits(40, kSmallImage);
  AsyncWorkerParts parts;
  parts.worker = worker;
  parts.dataset = async.run.dataset != nullptr ? async.run.dataset : digits;
  parts.net = make_small_net(async.run, worker);
  if (async.run.weight_decay > 0) parts.transforms.push_back(make_weight_decay(*parts.net, async.run.weight_decay));
  if (async.run.transforms) {
    for (auto& transform : async.run.transforms(*parts.net)) parts.transforms.push_back(std::move(transform));
  }
  parts.protocol = make_small_protocol(async, *parts.net);
  parts.keeps_state_of_nonfinite = async.run.on_nonfinite == OnNonfinite::kZero;
  return std::make_unique<AsyncWorker>(std::move(parts), async.run.num_workers, small_async_options(async.run));
}

/// Serializes the construction of nets; see net_mutex().
inline std::mutex& small_async_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// The server; includes all workers if there is no mailbox.
inline std::unique_ptr<AsyncTrainer> make_small_async(const SmallAsync& async) {
  const std::lock_guard lock(small_async_mutex());
  const SmallRun& run = async.run;
  AsyncTrainerParts parts;
  parts.net = make_small_net(run, 0);
  parts.optimizer = make_optimizer(async.optimizer, {.momentum = 0.9}, parts.net->layout().flat_elements());
  parts.schedule = {.kind = ScheduleKind::kPolynomial,
                    .initial_rate = run.learning_rate,
                    .total_steps = static_cast<std::int64_t>(run.total_steps)};
  parts.protocol = make_small_protocol(async, *parts.net);
  parts.server.num_workers = run.num_workers;
  parts.server.scale = async.scale.value_or(1.0f / static_cast<float>(run.num_workers));
  parts.server.max_staleness = async.max_staleness;
  parts.server.on_nonfinite = run.on_nonfinite;
  parts.server.num_threads = run.num_threads;
  parts.mailbox = async.mailbox;
  for (int worker = 0; async.mailbox == nullptr && worker < run.num_workers; ++worker) {
    parts.workers.push_back(make_small_worker(async, worker));
  }
  return std::make_unique<AsyncTrainer>(std::move(parts), small_async_options(run));
}

/// Workers of a rank other than 0.
inline std::unique_ptr<AsyncRank> make_small_rank(const SmallAsync& async) {
  const std::lock_guard lock(small_async_mutex());
  const WorkerRange range = worker_range(async.run.num_workers, async.mailbox->rank() - 1, async.mailbox->size() - 1);
  std::vector<std::unique_ptr<AsyncWorker>> workers;
  for (int local = 0; local < range.num_local_workers; ++local) {
    workers.push_back(make_small_worker(async, range.first_local_worker + local));
  }
  return std::make_unique<AsyncRank>(std::move(workers), async.mailbox, 1);
}

}  // namespace terngrad::testing
