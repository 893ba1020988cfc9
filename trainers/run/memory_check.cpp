#include "trainers/run/memory_check.h"

#include <algorithm>
#include <string>

#include "compress/comm/mailbox.h"
#include "datasets/dataset.h"
#include "datasets/pipeline.h"
#include "kernels/runtime/errors.h"
#include "nets/net_plan.h"
#include "trainers/options/async_options.h"
#include "trainers/options/train_options.h"
#include "trainers/run/dataset_factory.h"
#include "trainers/run/memory_estimate.h"
#include "trainers/run/memory_limit.h"
#include "trainers/run/net_factory.h"

namespace terngrad {
namespace {

/// Buffers as long as the parameters that an optimizer has for its slots.
int num_slots(const std::string& optimizer) {
  if (optimizer == "gd") return 0;
  return optimizer == "momentum" ? 1 : 2;
}

MemoryUse memory_use(const TrainOptions& o, int num_local_workers, bool is_cpu) {
  MemoryUse use{.num_workers = num_local_workers, .examples_per_worker = o.batch_size / o.num_nodes};
  // A worker of --strategy async has parameters of its own.
  use.buffers_per_worker = is_async(o) ? 2 : 1;
  // Parameters, their averages, the mean gradient. Servers that update parameters divide the slots.
  use.shared_buffers = 3 + (o.pulls_parameters() ? 0 : num_slots(o.optimizer));
  if (is_cpu) {
    const bool one_by_one = threads_per_worker(o) > 1 && !is_async(o);
    const int at_once = is_async(o) ? num_local_workers : std::min(num_threads(o), num_local_workers);
    use.slices_at_once = one_by_one ? std::min(1, num_local_workers) : at_once;
  }
  use.batches_at_once = PipelineOptions{}.prefetch_batches + 1;
  use.data = data_name(o);
  return use;
}

/// Alone, a process has all workers; else the first one only serves.
MemoryUse async_memory_use(const TrainOptions& o, const Mailbox* mailbox, bool is_cpu) {
  if (mailbox == nullptr) return memory_use(o, o.num_nodes, is_cpu);
  const bool serves = mailbox->rank() == 0;
  const int num_workers = serves ? 0 : o.num_nodes / (mailbox->size() - 1);
  MemoryUse use = memory_use(o, num_workers, is_cpu);
  if (!serves) use.shared_buffers = 0;
  return use;
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

void check_memory(const TrainOptions& o, const Dataset& dataset, int num_local_workers, bool is_cpu) {
  require_memory_for(o, dataset, memory_use(o, num_local_workers, is_cpu));
}

void check_async_memory(const TrainOptions& o, const Dataset& dataset, const Mailbox* mailbox, bool is_cpu) {
  require_memory_for(o, dataset, async_memory_use(o, mailbox, is_cpu));
}

}  // namespace terngrad
