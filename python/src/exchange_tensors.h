// Tensors that exchanges on CPUs and GPUs take from Python, and the state that they give it.
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "compress/comm/communicator.h"
#include "compress/memory/worker_memory.h"
#include "kernels/tensor/slice.h"
#include "python/src/plan.h"
#include "python/src/tensors.h"

namespace terngrad::python {

/// The tensors of a part. Keeps their memory alive.
struct ExchangeTensors {
  std::vector<std::vector<Tensor>> held;
  std::vector<TensorTable> gradients;  // [local workers]
  TensorTable mean;
};

/// @param selection  layout of the tensors of the part. @param gradients  [local workers] lists of its tensors, in its
/// order; @param out  likewise, one list. @throws InvalidArgument naming worker and tensor for what is not as
/// read_tensor asks
ExchangeTensors read_exchange_tensors(const Plan& plan, const Layout& selection, const WorkerRange& workers,
                                      const nanobind::list& gradients, const nanobind::list& out,
                                      const Device& device = Device::cpu());

/// The tensors that have state. @param memory  null: none have
std::vector<int> state_tensors(const Plan& plan, const WorkerMemory* memory);
/// Copies the state of a local worker's tensor to, or from, an array on the CPU, and waits for it.
void copy_state(const Plan& plan, WorkerMemory* memory, int local_worker, int segment, nanobind::handle array,
                bool restores, Stream& stream);

}  // namespace terngrad::python
