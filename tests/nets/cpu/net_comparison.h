// Compares a whole net on the CPU with the double-precision reference.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "kernels/runtime/parallel.h"
#include "nets/cpu/slice_runner.h"
#include "tests/nets/reference_net.h"

namespace terngrad::test {

inline void expect_tensors_near(std::span<const float> ours, const Doubles& reference, const Layout& layout,
                                double tolerance) {
  for (const Segment& segment : layout.segments()) {
    const auto offset = static_cast<std::size_t>(segment.offset);
    const auto size = static_cast<std::size_t>(segment.num_elements);
    EXPECT_LE(relative_difference(ours.subspan(offset, size), std::span(reference).subspan(offset, size)), tolerance)
        << segment.name;
  }
}

/// Expects two training passes and an inference pass to agree with the reference within `tolerance`
/// (relative_difference of each tensor), with one and two threads, and the reference's gradient to agree with central
/// differences.
inline void expect_net_matches_reference(const NetSpec& spec, const ImageShape& image, int num_classes,
                                         int num_examples, double tolerance = 2e-5) {
  const NetPlan plan = plan_net(spec, image, num_classes);
  auto parameters = random_floats(static_cast<std::size_t>(plan.layout.flat_elements()), 1);
  for (float& parameter : parameters) parameter *= 0.3f;
  const auto images = random_floats(static_cast<std::size_t>(num_examples * image.num_elements()), 2);
  const std::vector<std::int32_t> labels = cyclic_labels(num_examples, num_classes);
  ReferencePass reference_pass{.seed = 11, .worker = 5, .state = initial_state(plan)};
  EXPECT_LT(central_difference_error(plan, widen(parameters), widen(images), labels, reference_pass), 2e-6);

  for (const int num_threads : {1, 2}) {
    SCOPED_TRACE(::testing::Message() << num_threads << " threads");
    const LibraryThreads threads(num_threads);
    const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
    cpu::SliceRunner runner(engine, plan, num_examples, num_threads, Mode::kTraining);
    runner.set_parameters(parameters.data());
    reference_pass.is_training = true;
    reference_pass.state = initial_state(plan);
    std::vector<float> state(reference_pass.state.begin(), reference_pass.state.end());
    for (const std::uint64_t step : {3u, 4u}) {
      SCOPED_TRACE(::testing::Message() << "step " << step);
      reference_pass.step = step;
      const ReferenceResult expected = reference_net(plan, widen(parameters), widen(images), labels, reference_pass);
      // NaN reveals elements that are not written.
      std::vector<float> gradient(parameters.size(), NAN);
      const cpu::Pass pass{.seed = 11, .step = step, .worker = 5, .training_state = state.data()};
      const WorkerLoss loss = runner.compute_gradient(pass, images.data(), labels, gradient.data(), {});
      EXPECT_NEAR(loss.entropy_loss, expected.loss, 1e-5 * expected.loss);
      EXPECT_NEAR(loss.auxiliary_loss, expected.auxiliary_loss, 1e-5 * expected.auxiliary_loss);
      expect_tensors_near(gradient, expected.gradient, plan.layout, tolerance);
      expect_tensors_near(state, expected.state, plan.state_layout, tolerance);
      reference_pass.state = expected.state;
    }
    cpu::SliceRunner predictor(engine, plan, num_examples, num_threads, Mode::kInference);
    predictor.set_parameters(parameters.data());
    reference_pass.is_training = false;
    const ReferenceResult expected = reference_net(plan, widen(parameters), widen(images), labels, reference_pass);
    EXPECT_LE(relative_difference(predictor.forward({.state = state.data()}, images.data()), expected.logits),
              tolerance);
  }
}

/// The final logits layer.
inline LayerSpec logits_layer() { return {"logits", FullyConnectedSpec{.num_outputs = 0}}; }

}  // namespace terngrad::test
