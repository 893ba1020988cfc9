#include "trainers/run/async_factory.h"

#include <fmt/format.h>

#include <utility>

#include "compress/exchange/all_reduce_options.h"
#include "trainers/async/async_rank.h"
#include "trainers/async/async_trainer.h"
#include "trainers/options/async_options.h"
#include "trainers/options/compression_option_checks.h"
#include "trainers/options/gradient_handling.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

std::shared_ptr<const PushProtocol> make_protocol(const TrainOptions& o, const Net& net, std::uint64_t run_id) {
  CodecPlanOptions codecs = exchange_options(o, run_id, 1).codecs;
  codecs.context.num_workers = o.num_nodes;
  const CodecPlan plan(net.layout(), codecs);
  check_codec_plan(o, plan);
  const auto width =
      o.downlink_codec == DownlinkCodec::kBfloat16 ? FloatCodec::Width::kBfloat16 : FloatCodec::Width::kFloat32;
  return std::make_shared<const PushProtocol>(net.layout(), net.state_layout(), plan, width, run_id, async_settings(o),
                                              o.seed);
}

std::vector<std::unique_ptr<AsyncWorker>> make_workers(const TrainOptions& o, const AsyncSetupParts& parts,
                                                       const WorkerRange& range,
                                                       const std::shared_ptr<const PushProtocol>& protocol) {
  std::vector<std::unique_ptr<AsyncWorker>> workers;
  for (int local = 0; local < range.num_local_workers; ++local) {
    AsyncWorkerParts worker;
    worker.worker = range.first_local_worker + local;
    worker.dataset = parts.dataset;
    worker.net = parts.make_worker_net(worker.worker);
    worker.transforms = parts.make_transforms(*worker.net);
    worker.protocol = protocol;
    worker.memory = memory_spec(o);
    worker.keeps_state_of_nonfinite = o.on_nonfinite == OnNonfinite::kZero;
    workers.push_back(std::make_unique<AsyncWorker>(std::move(worker), o.num_nodes, parts.trainer));
  }
  return workers;
}

}  // namespace

AsyncSetup make_async_setup(const TrainOptions& o, const AsyncSetupParts& parts) {
  AsyncSetup setup;
  std::unique_ptr<Net> net = parts.make_evaluation_net();
  const std::shared_ptr<const PushProtocol> protocol = make_protocol(o, *net, parts.run_id);
  setup.plan_fingerprint = protocol->plan.fingerprint();
  const bool is_alone = parts.mailbox == nullptr;
  if (!is_alone && parts.mailbox->rank() != 0) {
    const WorkerRange range = worker_range(o.num_nodes, parts.mailbox->rank() - 1, parts.mailbox->size() - 1);
    const auto rank =
        std::make_shared<AsyncRank>(make_workers(o, parts, range, protocol), parts.mailbox, parts.trainer.num_threads);
    setup.run_workers = [rank](const std::function<bool()>& asks_to_stop) { rank->run(asks_to_stop); };
    return setup;
  }
  AsyncTrainerParts serving;
  serving.optimizer = make_optimizer(o.optimizer, {.momentum = o.momentum}, net->layout().flat_elements());
  serving.net = std::move(net);
  serving.schedule = parts.schedule;
  serving.protocol = protocol;
  serving.server.num_workers = o.num_nodes;
  serving.server.scale = async_scale(o);
  if (o.max_staleness >= 0) serving.server.max_staleness = static_cast<std::uint64_t>(o.max_staleness);
  serving.server.on_nonfinite = o.on_nonfinite;
  serving.server.num_threads = parts.trainer.num_threads;
  if (is_alone) serving.workers = make_workers(o, parts, worker_range(o.num_nodes, 0, 1), protocol);
  serving.threads_per_worker = parts.threads_per_worker;
  serving.mailbox = parts.mailbox;
  setup.note = is_alone ? "asynchronous: workers take turns, and pull after each push of theirs"
               : parts.mailbox->size() == 2
                   ? fmt::format("asynchronous: rank 0 serves, {} workers on rank 1 push", o.num_nodes)
                   : fmt::format("asynchronous: rank 0 serves, {} workers on ranks 1 to {} push", o.num_nodes,
                                 parts.mailbox->size() - 1);
  auto trainer = std::make_unique<AsyncTrainer>(std::move(serving), parts.trainer);
  setup.conclusion = [&trainer = *trainer] {
    return "staleness of all pushes, in updates since the pull\n" + trainer.push_counts().to_table();
  };
  setup.trainer = std::move(trainer);
  return setup;
}

}  // namespace terngrad
