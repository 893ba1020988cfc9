// Whether a run fits into host memory, by the options of terngrad_train.
#pragma once

namespace terngrad {

class Dataset;
class Mailbox;
struct MemoryUse;
struct TrainOptions;

/// What a rank uses of host memory, where gradients are exchanged there; messages, data and evaluation left out.
/// @param num_local_workers  that the rank computes gradients of
/// @param is_cpu             whether their nets are in host memory too
MemoryUse memory_use(const TrainOptions& o, int num_local_workers, bool is_cpu);

/// The same with --strategy async: a process alone has all workers, else rank 0 only serves.
/// @param size  ranks that train
MemoryUse async_memory_use(const TrainOptions& o, int rank, int size, bool is_cpu);

/// Checks what this rank needs of host memory, where gradients are exchanged there.
/// @param num_local_workers  that this rank computes gradients of
/// @param is_cpu             whether their nets are in host memory too
/// @throws UsageError as require_memory (trainers/run/memory_estimate.h)
void check_memory(const TrainOptions& o, const Dataset& dataset, int num_local_workers, bool is_cpu);

/// The same with --strategy async.
/// @param mailbox  between the ranks; nullptr for one process
void check_async_memory(const TrainOptions& o, const Dataset& dataset, const Mailbox* mailbox, bool is_cpu);

}  // namespace terngrad
