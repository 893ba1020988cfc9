#include "nets/visit_outputs.h"

#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"
#include "nets/cpu/slice_runner.h"
#include "nets/planned_net.h"

namespace terngrad {

void visit_outputs(const NetPlan& plan, std::span<const float> parameters, std::span<const float> state,
                   std::span<const float> images, int num_examples, const OutputVisitor& visit) {
  TERNGRAD_REQUIRE(num_examples >= 1, "[Net] num_examples must be at least 1, is ", num_examples);
  check_inputs(plan, parameters, state, images, num_examples);
  const LibraryThreads threads(1);
  const auto engine = cpu::dnnl_call("make engine", [] { return dnnl::engine(dnnl::engine::kind::cpu, 0); });
  cpu::SliceRunner runner(engine, plan, num_examples, 1, Mode::kInference);
  runner.set_parameters(parameters.data());
  runner.forward({.state = state.data()}, images.data(), visit);
}

}  // namespace terngrad
