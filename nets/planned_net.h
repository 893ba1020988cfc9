// PlannedNet: the parts of Net that depend on the plan only, shared by all backends.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nets/net.h"
#include "nets/net_plan.h"
#include "nets/visit_outputs.h"

namespace terngrad {

/// Net::initialize and Net::initialize_state. @throws InvalidArgument for spans of other sizes
void initialize_parameters(const NetPlan& plan, std::uint64_t seed, std::span<float> parameters);
void initialize_net_state(const NetPlan& plan, std::span<float> state);

/// Net::gradient_order: layers from the last to the first, the tensors of each in order.
std::vector<int> backward_order(const NetPlan& plan);

/// Checks of the arguments of Net's calls. @throws InvalidArgument, naming the argument
void check_workers(const NetOptions& options);
void check_gradients(const NetPlan& plan, const NetOptions& options, std::span<const float> parameters,
                     const TrainBatch& batch, std::span<float* const> gradients, std::span<const WorkerLoss> losses);
/// @throws NotSupported if the batch asks for logits
void refuse_logits(const TrainBatch& batch);
void check_inputs(const NetPlan& plan, std::span<const float> parameters, std::span<const float> state,
                  std::span<const float> images, int num_examples);
void check_predict(const NetPlan& plan, std::span<const float> parameters, std::span<const float> state,
                   std::span<const float> images, int num_examples, std::span<const float> logits);

/// Device-independent part of a net; `Base` is Net or derived from it. Initial values are written to host memory on
/// every backend.
template <class Base>
class PlannedNet : public Base {
 public:
  explicit PlannedNet(NetPlan plan) : plan_(std::move(plan)) {}
  const std::string& name() const override { return plan_.name; }
  const Layout& layout() const override { return plan_.layout; }
  const Layout& state_layout() const override { return plan_.state_layout; }
  ImageShape image_shape() const override { return plan_.image; }
  int num_classes() const override { return plan_.num_classes; }
  bool is_regularized(int segment) const override {
    return plan_.tensors.at(static_cast<std::size_t>(segment)).is_regularized;
  }
  std::vector<int> gradient_order() const override { return backward_order(plan_); }
  void initialize(std::uint64_t seed, std::span<float> parameters) const override {
    initialize_parameters(plan_, seed, parameters);
  }
  void initialize_state(std::span<float> state) const override { initialize_net_state(plan_, state); }
  void visit_outputs(std::span<const float> parameters, std::span<const float> state, std::span<const float> images,
                     int num_examples, const OutputVisitor& visit) const override {
    terngrad::visit_outputs(plan_, parameters, state, images, num_examples, visit);
  }

 protected:
  const NetPlan& plan() const { return plan_; }

 private:
  NetPlan plan_;
};

}  // namespace terngrad
