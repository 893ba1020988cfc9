#include "nets/planned_net.h"

#include <algorithm>
#include <cstddef>

#include "kernels/runtime/errors.h"
#include "nets/initializer.h"

namespace terngrad {
namespace {

void require_span(const char* who, std::size_t have, std::int64_t need) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(have) == need, "[Net] ", who, " must have ", need, " elements, has ",
                   have);
}

}  // namespace

void initialize_parameters(const NetPlan& plan, std::uint64_t seed, std::span<float> parameters) {
  require_span("parameters", parameters.size(), plan.layout.flat_elements());
  std::ranges::fill(parameters, 0.0f);
  for (int index = 0; index < plan.layout.num_segments(); ++index) {
    const Segment& segment = plan.layout.segment(index);
    fill_tensor(
        plan.tensors[static_cast<std::size_t>(index)].initializer, seed, index,
        parameters.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements)));
  }
}

void initialize_net_state(const NetPlan& plan, std::span<float> state) {
  require_span("state", state.size(), plan.state_layout.flat_elements());
  std::ranges::fill(state, 0.0f);
  for (int index = 0; index < plan.state_layout.num_segments(); ++index) {
    const Segment& segment = plan.state_layout.segment(index);
    std::fill_n(state.begin() + segment.offset, segment.num_elements,
                plan.state_values[static_cast<std::size_t>(index)]);
  }
}

std::vector<int> backward_order(const NetPlan& plan) {
  std::vector<int> order;
  for (auto layer = plan.layers.rbegin(); layer != plan.layers.rend(); ++layer) {
    order.insert(order.end(), layer->tensors.begin(), layer->tensors.end());
  }
  return order;
}

void check_workers(const NetOptions& options) {
  const auto require = [](const char* name, int value) {
    TERNGRAD_REQUIRE(value >= 1, "[make_net] ", name, " must be at least 1, is ", value);
  };
  require("num_local_workers", options.num_local_workers);
  require("examples_per_worker", options.examples_per_worker);
  TERNGRAD_REQUIRE(options.first_local_worker >= 0, "[make_net] first_local_worker must not be negative, is ",
                   options.first_local_worker);
}

void check_gradients(const NetPlan& plan, const NetOptions& options, std::span<const float> parameters,
                     const TrainBatch& batch, std::span<float* const> gradients, std::span<const WorkerLoss> losses) {
  const int num_workers = options.num_local_workers;
  const std::int64_t num_examples = std::int64_t{num_workers} * options.examples_per_worker;
  require_span("parameters", parameters.size(), plan.layout.flat_elements());
  require_span("images", batch.images.size(), num_examples * plan.image.num_elements());
  require_span("labels", batch.labels.size(), num_examples);
  require_span("gradients", gradients.size(), num_workers);
  require_span("losses", losses.size(), num_workers);
  if (plan.state_layout.num_segments() > 0) require_span("states", batch.states.size(), num_workers);
  if (!batch.logits.empty()) require_span("logits", batch.logits.size(), num_examples * plan.num_classes);
  TERNGRAD_REQUIRE(batch.step >> 40 == 0, "[Net] draws are keyed by 40 bits of the step, got ", batch.step);
}

void refuse_logits(const TrainBatch& batch) {
  if (!batch.logits.empty()) throw NotSupported("[Net] TrainBatch::logits are written on the CPU only");
}

void check_inputs(const NetPlan& plan, std::span<const float> parameters, std::span<const float> state,
                  std::span<const float> images, int num_examples) {
  TERNGRAD_REQUIRE(num_examples >= 0, "[Net] num_examples must not be negative, is ", num_examples);
  require_span("parameters", parameters.size(), plan.layout.flat_elements());
  require_span("state", state.size(), plan.state_layout.flat_elements());
  require_span("images", images.size(), num_examples * plan.image.num_elements());
}

void check_predict(const NetPlan& plan, std::span<const float> parameters, std::span<const float> state,
                   std::span<const float> images, int num_examples, std::span<const float> logits) {
  check_inputs(plan, parameters, state, images, num_examples);
  require_span("logits", logits.size(), std::int64_t{num_examples} * plan.num_classes);
}

}  // namespace terngrad
