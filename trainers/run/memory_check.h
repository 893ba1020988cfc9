// Whether a run fits into host memory, by the options of terngrad_train.
#pragma once

namespace terngrad {

class Dataset;
class Mailbox;
struct TrainOptions;

/// Checks what this rank needs of host memory, where gradients are exchanged there.
/// @param num_local_workers  that this rank computes gradients of
/// @param is_cpu             whether their nets are in host memory too
/// @throws UsageError as require_memory (trainers/run/memory_estimate.h)
void check_memory(const TrainOptions& o, const Dataset& dataset, int num_local_workers, bool is_cpu);

/// The same with --strategy async.
/// @param mailbox  between the ranks; nullptr for one process
void check_async_memory(const TrainOptions& o, const Dataset& dataset, const Mailbox* mailbox, bool is_cpu);

}  // namespace terngrad
