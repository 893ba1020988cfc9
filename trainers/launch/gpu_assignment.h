// GpuAssignment: which GPUs each process of a run takes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainers/launch/process_group.h"
#include "trainers/options/train_devices.h"

namespace terngrad {

/// How processes use the GPUs of a host.
enum class GpuUse {
  kExclusive,  // each has its own, and NCCL connects them
  kShared,     // gradients travel between the processes' memory: several processes may compute on one GPU
};

/// What a process tells the others before it computes.
struct ProcessGpus {
  std::string process;              // its name: "rank 1 on node2"
  std::string host;                 // processes that have this in common may see the same GPUs
  std::string device;               // --device
  int num_gpus = 0;                 // --num_gpus: 0 for an equal part
  std::string math;                 // --math
  std::string why_none = {};        // why it can use no GPU; empty if it can
  std::vector<std::string> ids;     // of the GPUs that it sees: Device::unique_id
  std::vector<std::string> models;  // of each, all that bits depend on
};

/// Which GPUs each process takes: processes that see the same GPUs of a host share them, in the order of their ranks,
/// by contiguous parts of equal size; a process that sees others than its neighbours takes its own. Where a GPU may
/// serve several, each process takes one, in turn, or a part of as many as it is told. All take as many, of one model,
/// since bits depend on it.
/// @returns one range for each process, none on the CPU
/// @throws UsageError that names the option and the processes if they differ in what they ask for or in whether they
/// have GPUs, if GPUs cannot be shared so, or if two processes would take the same one and may not
std::vector<GpuRange> assign_gpus(std::span<const ProcessGpus> processes, GpuUse use);

/// What this process tells. @param device, num_gpus, math  options; no GPU is looked for where `device` is "cpu"
ProcessGpus own_gpus(const ProcessGroup& processes, const std::string& device, int num_gpus, const std::string& math,
                     GpuUse use);

/// What each process of the launch tells, in the order of ranks; a collective call.
std::vector<ProcessGpus> gather_gpus(const ProcessGroup& processes, const ProcessGpus& own);

}  // namespace terngrad
