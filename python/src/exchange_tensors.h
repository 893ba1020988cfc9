// Conversion of gradients, means and exchange state between Python and the library, for CPUs and GPUs.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/memory/saved_states.h"
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

/// @param selection  layout of the part's tensors. @param gradients  [local workers] lists of tensors in that order.
/// @param out  list of tensors for the mean, likewise. @throws InvalidArgument as read_tensor, naming worker and tensor
ExchangeTensors read_exchange_tensors(const Plan& plan, const Layout& selection, const WorkerRange& workers,
                                      const nanobind::list& gradients, const nanobind::list& out, const Device& device);

/// (name, worker, shape) of each state array; see saved_states.
std::vector<std::tuple<std::string, int, std::vector<std::int64_t>>> describe_states(
    const std::vector<SavedState>& states);
/// Copies a state array from (`restores`) or to an array on the CPU, and waits for the copy. @param stream  stream of
/// the states' device. @throws InvalidArgument for an index out of range and an array of another shape or type
void copy_state(const std::vector<SavedState>& states, int index, nanobind::handle array, bool restores,
                Stream& stream);

}  // namespace terngrad::python
