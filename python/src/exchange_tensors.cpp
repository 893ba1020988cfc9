#include "python/src/exchange_tensors.h"

#include <span>
#include <string>
#include <utility>

#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"

namespace terngrad::python {
namespace {

namespace nb = nanobind;

template <class Read>
std::vector<Tensor> read(const Layout& selection, const nb::list& tensors, const std::string& whose,
                         const Device& device, const Read& read_one) {
  TERNGRAD_REQUIRE(static_cast<int>(nb::len(tensors)) == selection.num_segments(), whose, "has ", nb::len(tensors),
                   " tensors, expected ", selection.num_segments());
  std::vector<Tensor> result;
  result.reserve(nb::len(tensors));
  for (int i = 0; i < selection.num_segments(); ++i) {
    result.push_back(
        read_one(tensors[static_cast<std::size_t>(i)], whose + "tensor '" + selection.segment(i).name + "'", device));
  }
  return result;
}

}  // namespace

ExchangeTensors read_exchange_tensors(const Plan& plan, const Layout& selection, const WorkerRange& workers,
                                      const nb::list& gradients, const nb::list& out, const Device& device) {
  TERNGRAD_REQUIRE(static_cast<int>(nb::len(gradients)) == workers.num_local_workers, "this process has ",
                   workers.num_local_workers, " workers, got the gradients of ", nb::len(gradients));
  ExchangeTensors result;
  result.held.reserve(nb::len(gradients) + 1);
  result.gradients.reserve(nb::len(gradients));
  for (std::size_t worker = 0; worker < nb::len(gradients); ++worker) {
    const std::string whose =
        "gradient of worker " + std::to_string(workers.first_local_worker + static_cast<int>(worker)) + ", ";
    result.held.push_back(read(selection, nb::cast<nb::list>(gradients[worker]), whose, device, &read_tensor));
    result.gradients.push_back(plan.table(selection, result.held.back(), whose));
  }
  result.held.push_back(read(selection, out, "out, ", device, &write_tensor));
  require_apart(result.held.back(), "out");
  result.mean = plan.table(selection, result.held.back(), "out, ");
  return result;
}

std::vector<int> state_tensors(const Plan& plan, const WorkerMemory* memory) {
  std::vector<int> result;
  if (memory == nullptr) return result;
  for (int segment = 0; segment < plan.layout.num_segments(); ++segment) {
    if (memory->covers(segment)) result.push_back(segment);
  }
  return result;
}

void copy_state(const Plan& plan, WorkerMemory* memory, int local_worker, int segment, nb::handle array, bool restores,
                Stream& stream) {
  TERNGRAD_REQUIRE(memory != nullptr && memory->covers(segment), "tensor ", segment, " has no state");
  TERNGRAD_REQUIRE(local_worker >= 0 && local_worker < memory->num_local_workers(), "there is no local worker ",
                   local_worker);
  const std::string name = "state of tensor '" + plan.layout.segment(segment).name + "'";
  const Tensor tensor = restores ? read_tensor(array, name) : write_tensor(array, name);
  const auto count = static_cast<std::size_t>(plan.layout.segment(segment).num_elements);
  TERNGRAD_REQUIRE(tensor.shape() == plan.layout.segment(segment).shape, name, " has another shape than the tensor");
  TERNGRAD_REQUIRE(tensor.type == ElementType::kFloat32, name, " must be float32");
  const std::span<float> state(memory->states()[static_cast<std::size_t>(local_worker)].tensor(segment), count);
  const std::span<float> other(static_cast<float*>(tensor.data()), count);
  copy<float>(restores ? other : state, restores ? state : other, stream);
  stream.synchronize();
}

}  // namespace terngrad::python
