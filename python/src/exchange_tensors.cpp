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

std::vector<std::tuple<std::string, int, std::vector<std::int64_t>>> describe_states(
    const std::vector<SavedState>& states) {
  std::vector<std::tuple<std::string, int, std::vector<std::int64_t>>> described;
  described.reserve(states.size());
  for (const SavedState& state : states) described.emplace_back(state.name, state.worker, state.shape);
  return described;
}

void copy_state(const std::vector<SavedState>& states, int index, nb::handle array, bool restores, Stream& stream) {
  TERNGRAD_REQUIRE(index >= 0 && index < static_cast<int>(states.size()), "there is no state ", index);
  const SavedState& state = states[static_cast<std::size_t>(index)];
  const std::string name = "state of tensor '" + state.name + "'";
  const Tensor tensor = restores ? read_tensor(array, name) : write_tensor(array, name);
  TERNGRAD_REQUIRE(tensor.shape() == state.shape, name, " has another shape than the tensor");
  TERNGRAD_REQUIRE(tensor.type == ElementType::kFloat32, name, " must be float32");
  const std::span<float> other(static_cast<float*>(tensor.data()), state.values.size());
  copy<float>(restores ? other : state.values, restores ? state.values : other, stream);
  stream.synchronize();
}

}  // namespace terngrad::python
