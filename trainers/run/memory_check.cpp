#include "trainers/run/memory_check.h"

#include <algorithm>
#include <string>

#include "compress/comm/communicator.h"
#include "compress/comm/mailbox.h"
#include "compress/memory/memory_options.h"
#include "datasets/dataset.h"
#include "datasets/pipeline.h"
#include "kernels/runtime/errors.h"
#include "nets/net_plan.h"
#include "trainers/options/async_options.h"
#include "trainers/options/gradient_handling.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"
#include "trainers/run/memory_estimate.h"
#include "trainers/run/memory_limit.h"
#include "trainers/run/net_factory.h"

namespace terngrad {
namespace {

/// Number of an optimizer's slots of the size of the parameters.
int num_slots(const std::string& optimizer) {
  if (optimizer == "gd") return 0;
  return optimizer == "momentum" ? 1 : 2;
}

void require_memory_for(const TrainOptions& o, const Dataset& dataset, const MemoryUse& use) {
  try {
    const ImageShape shape{dataset.height(), dataset.width(), dataset.channels()};
    require_memory(estimate_memory(plan_net(net_spec_of(o), shape, dataset.num_classes()), use), memory_limit());
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

MemoryUse memory_use(const TrainOptions& o, int num_local_workers, bool is_cpu) {
  MemoryUse use{.num_workers = num_local_workers, .examples_per_worker = o.batch_size / o.num_nodes};
  // The first of several processes with a group encodes; all of them have its mean.
  use.num_senders = num_local_workers / o.workers_per_group;
  if (o.workers_per_group > 1) use.num_groups = std::max<std::int64_t>(1, use.num_senders);
  use.has_replicas = is_async(o);
  use.num_slots = num_slots(o.optimizer);
  const MemoryOptions memory = parse_memory(memory_spec(o));
  use.memory_bytes = memory_bytes(memory);
  use.shared_memory_bytes = shared_memory_bytes(memory);
  use.optimizer = o.optimizer;
  if (is_cpu) {
    const bool one_by_one = threads_per_worker(o) > 1 && !is_async(o);
    const int at_once = is_async(o) ? num_local_workers : std::min(num_threads(o), num_local_workers);
    use.slices_at_once = one_by_one ? std::min(1, num_local_workers) : at_once;
  }
  use.batches_at_once = PipelineOptions{}.prefetch_batches + 1;
  use.data = data_name(o);
  return use;
}

MemoryUse async_memory_use(const TrainOptions& o, int rank, int size, bool is_cpu) {
  if (size == 1) return memory_use(o, o.num_nodes, is_cpu);
  MemoryUse use =
      memory_use(o, rank == 0 ? 0 : worker_range(o.num_nodes, rank - 1, size - 1).num_local_workers, is_cpu);
  use.has_parameters = rank == 0;
  return use;
}

void check_memory(const TrainOptions& o, const Dataset& dataset, int num_local_workers, bool is_cpu) {
  require_memory_for(o, dataset, memory_use(o, num_local_workers, is_cpu));
}

void check_async_memory(const TrainOptions& o, const Dataset& dataset, const Mailbox* mailbox, bool is_cpu) {
  const int rank = mailbox == nullptr ? 0 : mailbox->rank();
  const int size = mailbox == nullptr ? 1 : mailbox->size();
  require_memory_for(o, dataset, async_memory_use(o, rank, size, is_cpu));
}

}  // namespace terngrad
