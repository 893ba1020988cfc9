// Checks that a run of terngrad_train fits into host memory.
#pragma once

namespace terngrad {

class Dataset;
class Mailbox;
struct MemoryUse;
struct TrainOptions;

/// The host memory use of a rank if gradients are exchanged in host memory; without messages, data and evaluation.
/// @param num_local_workers  number of workers whose gradients this rank computes
/// @param is_cpu             true if their nets are in host memory too
MemoryUse memory_use(const TrainOptions& o, int num_local_workers, bool is_cpu);

/// The same with --strategy async: a single process has all workers, else rank 0 only serves.
/// @param size  number of ranks that train
MemoryUse async_memory_use(const TrainOptions& o, int rank, int size, bool is_cpu);

/// Checks that this rank has enough host memory, if gradients are exchanged in host memory.
/// @param num_local_workers  number of workers whose gradients this rank computes
/// @param is_cpu             true if their nets are in host memory too
/// @throws UsageError as require_memory (trainers/run/memory_estimate.h)
void check_memory(const TrainOptions& o, const Dataset& dataset, int num_local_workers, bool is_cpu);

/// The same with --strategy async.
/// @param mailbox  connects the ranks; nullptr for one process
void check_async_memory(const TrainOptions& o, const Dataset& dataset, const Mailbox* mailbox, bool is_cpu);

}  // namespace terngrad
