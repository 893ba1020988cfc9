// assign_gpus: distributes the GPUs of hosts over the processes of a run.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainers/launch/process_group.h"
#include "trainers/options/train_devices.h"

namespace terngrad {

/// Use of a host's GPUs by several processes.
enum class GpuUse {
  kExclusive,  // each process has its own GPUs, connected by NCCL
  kShared,     // gradients are exchanged in host memory: several processes may compute on one GPU
};

/// GPU options and visible GPUs of a process, gathered before the assignment.
struct ProcessGpus {
  std::string process;              // name of the process: "rank 1 on node2"
  std::string host;                 // processes on the same host may see the same GPUs
  std::string device;               // --device
  int num_gpus = 0;                 // --num_gpus; 0: an equal part
  std::string math;                 // --math
  std::string why_none = {};        // reason why it cannot use a GPU; empty if it can
  std::vector<std::string> ids;     // Device::unique_id of the GPUs that it sees
  std::vector<std::string> models;  // properties of each GPU that bits depend on
};

/// Assigns GPUs to processes. Processes that see the same GPUs of a host divide them in contiguous, equal parts in the
/// order of ranks; a process with a different set of visible GPUs uses its own. With kShared each process takes one GPU
/// in turn, or --num_gpus GPUs. All processes get the same number of GPUs of one model, since bits depend on it.
/// @returns one range per process; empty for a run on the CPU
/// @throws UsageError naming the option and the processes if their options differ, if only some have GPUs, if the GPUs
/// cannot be divided, or if two processes would use the same GPU with kExclusive
std::vector<GpuRange> assign_gpus(std::span<const ProcessGpus> processes, GpuUse use);

/// The values of this process. @param device, num_gpus, math  options; GPUs are not queried if `device` is "cpu"
ProcessGpus own_gpus(const ProcessGroup& processes, const std::string& device, int num_gpus, const std::string& math,
                     GpuUse use);

/// Collective: the values of all processes of the launch, in the order of ranks.
std::vector<ProcessGpus> gather_gpus(const ProcessGroup& processes, const ProcessGpus& own);

}  // namespace terngrad
