#include "nets/cuda/pass_runner.h"

#include <algorithm>

#include "nets/cuda/add.h"
#include "nets/cuda/softmax_cross_entropy.h"

namespace terngrad::cuda {
namespace {

/// More branches would hardly run concurrently, and each needs a workspace.
constexpr int kMaxBranches = 8;

Pass with_workspace(Pass pass, std::byte* workspace) {
  pass.workspace = workspace;
  return pass;
}

}  // namespace

PassRunner::PassRunner(const Libraries& libraries, const NetPlan& plan, int num_workers, int examples_per_worker,
                       Mode mode, MathMode math, std::vector<std::string>& notes)
    : plan_(plan),
      stream_(libraries.stream()),
      num_workers_(num_workers),
      examples_per_worker_(examples_per_worker),
      example_losses_(std::int64_t{num_workers} * examples_per_worker, stream_.device()),
      memory_(plan, std::int64_t{num_workers} * examples_per_worker, mode, stream_.device()) {
  std::shared_ptr<StreamFork> fork;
  if (mode == Mode::kTraining) fork = std::make_shared<StreamFork>(stream_, std::min(num_workers, kMaxBranches));
  const LayerContext context{.libraries = libraries, .workspace = &workspace_, .fork = fork, .notes = &notes};
  const std::vector<std::int64_t> first_draws = first_dropout_draws(plan, examples_per_worker);
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    if (mode == Mode::kInference && plan.layers[l].is_training_only) {
      layers_.push_back(nullptr);
      continue;
    }
    layers_.push_back(make_layer(context, plan.layers[l], plan,
                                 {.num_workers = num_workers,
                                  .examples_per_worker = examples_per_worker,
                                  .mode = mode,
                                  .input_gradient = input_gradient_of(plan, l),
                                  .first_draw = first_draws[l],
                                  .math = math}));
  }
  workspace_.allocate(stream_.device());
}

const float* PassRunner::forward(const Pass& caller_pass, const float* images) {
  const Pass pass = with_workspace(caller_pass, workspace_.data());
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    if (layers_[l] == nullptr) continue;
    PassMemory::Place& place = memory_.place(l);
    for (std::size_t i = 0; i < place.inputs.size(); ++i) {
      if (plan_.layers[l].inputs[i] == kImageIndex) place.inputs[i] = images;
    }
    layers_[l]->forward(pass, place.inputs, place.output);
  }
  return memory_.place(layers_.size() - 1).output;
}

void PassRunner::compute_gradients(const Pass& caller_pass, const float* images, const std::int32_t* labels,
                                   WorkerBuffers<float> gradients, WorkerLoss* losses,
                                   const SegmentSubmitted& on_segment) {
  const float* logits = forward(caller_pass, images);
  const Pass pass = with_workspace(caller_pass, workspace_.data());
  softmax_cross_entropy(logits, labels, examples_per_worker_, num_workers_, plan_.num_classes,
                        memory_.place(layers_.size() - 1).output_gradient, example_losses_.data(), losses, stream_,
                        {.label_smoothing = plan_.label_smoothing});
  for (const AuxiliaryLossPlan& auxiliary : plan_.auxiliary_losses) {
    const PassMemory::Place& place = memory_.place(static_cast<std::size_t>(auxiliary.layer));
    softmax_cross_entropy(place.output, labels, examples_per_worker_, num_workers_, plan_.num_classes,
                          place.output_gradient, example_losses_.data(), losses, stream_,
                          {.label_smoothing = plan_.label_smoothing, .weight = auxiliary.weight, .is_auxiliary = true});
  }
  for (std::size_t l = layers_.size(); l-- > 0;) {
    if (!plan_.layers[l].needs_gradient) continue;
    const PassMemory::Place& place = memory_.place(l);
    layers_[l]->backward(pass, {.inputs = place.inputs,
                                .output = place.output,
                                .output_gradient = place.output_gradient,
                                .input_gradients = place.input_gradients,
                                .gradients = gradients});
    for (const PassMemory::Sum& sum : place.sums) add_to(sum.sum, sum.addend, sum.num_elements, stream_);
    if (!on_segment) continue;
    for (const int segment : plan_.layers[l].tensors) on_segment(segment);
  }
}

}  // namespace terngrad::cuda
