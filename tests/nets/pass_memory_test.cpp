#include "nets/pass_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/nets/auxiliary_net.h"
#include "tests/nets/branched_net.h"

namespace terngrad::pass_memory_test {
namespace {

constexpr std::int64_t kExamples = 3;

NetPlan branched_plan() { return plan_net(test::branched_net(0.5f), {9, 8, 4}, 5); }

TEST(PassMemory, LayersReadWhatOthersWrote) {
  const NetPlan plan = branched_plan();
  for (const Mode mode : {Mode::kTraining, Mode::kInference}) {
    PassMemory memory(plan, kExamples, mode, Device::cpu());
    for (std::size_t l = 0; l < plan.layers.size(); ++l) {
      const PassMemory::Place& place = memory.place(l);
      EXPECT_EQ(place.num_outputs, kExamples * plan.layers[l].output.num_elements());
      ASSERT_EQ(place.inputs.size(), plan.layers[l].inputs.size());
      for (std::size_t i = 0; i < place.inputs.size(); ++i) {
        const int input = plan.layers[l].inputs[i];
        EXPECT_EQ(place.inputs[i],
                  input == kImageIndex ? nullptr : memory.place(static_cast<std::size_t>(input)).output);
      }
    }
  }
}

TEST(PassMemory, TrainingKeepsEveryOutputAndInferenceThoseStillToBeRead) {
  const NetPlan plan = branched_plan();
  PassMemory training(plan, kExamples, Mode::kTraining, Device::cpu());
  std::set<const float*> distinct;
  for (std::size_t l = 0; l < plan.layers.size(); ++l) distinct.insert(training.place(l).output);
  EXPECT_EQ(distinct.size(), plan.layers.size());

  PassMemory inference(plan, kExamples, Mode::kInference, Device::cpu());
  std::map<const float*, std::size_t> owner;  // last writer of each buffer
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    for (const int input : plan.layers[l].inputs) {
      if (input == kImageIndex) continue;
      const auto producer = static_cast<std::size_t>(input);
      EXPECT_EQ(owner.at(inference.place(producer).output), producer) << plan.layers[l].name << " reads what is gone";
      EXPECT_NE(inference.place(producer).output, inference.place(l).output) << plan.layers[l].name;
    }
    owner[inference.place(l).output] = l;
  }
  EXPECT_LT(owner.size(), plan.layers.size());
}

/// In backward order, each gradient must be complete and not overwritten when its layer reads it.
TEST(PassMemory, GradientsOfSeveralConsumersAreSummedBeforeTheyAreRead) {
  const NetPlan plan = branched_plan();
  PassMemory memory(plan, kExamples, Mode::kTraining, Device::cpu());
  std::map<const float*, std::pair<int, int>> content;  // buffer: layer of its gradient, parts added
  content[memory.place(plan.layers.size() - 1).output_gradient] = {static_cast<int>(plan.layers.size()) - 1, 1};
  for (std::size_t l = plan.layers.size(); l-- > 0;) {
    const PassMemory::Place& place = memory.place(l);
    ASSERT_EQ(place.output_gradient != nullptr, plan.layers[l].needs_gradient);
    if (place.output_gradient == nullptr) continue;
    const int parts = std::max(plan.layers[l].num_consumers, 1);
    EXPECT_EQ(content.at(place.output_gradient), std::pair(static_cast<int>(l), parts)) << plan.layers[l].name;
    for (std::size_t i = 0; i < place.inputs.size(); ++i) {
      const int input = plan.layers[l].inputs[i];
      if (place.input_gradients[i] == nullptr) {
        EXPECT_EQ(input, kImageIndex);
        continue;
      }
      EXPECT_NE(place.input_gradients[i], place.output_gradient);
      content[place.input_gradients[i]] = {input, 1};
    }
    for (const PassMemory::Sum& sum : place.sums) {
      const auto addend = content.at(sum.addend);
      EXPECT_EQ(addend.first, content.at(sum.sum).first);
      EXPECT_EQ(sum.num_elements,
                kExamples * plan.layers[static_cast<std::size_t>(addend.first)].output.num_elements());
      content.at(sum.sum).second += addend.second;
    }
  }
}

// Inference keeps no memory for layers of training only, and does not keep their inputs alive.
TEST(PassMemory, InferenceHasNoPlaceForLayersOfTrainingOnly) {
  const NetPlan plan = plan_net(test::net_of_three_losses(1), {7, 9, 3}, 4);
  PassMemory training(plan, kExamples, Mode::kTraining, Device::cpu());
  PassMemory inference(plan, kExamples, Mode::kInference, Device::cpu());
  int num_skipped = 0;
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    EXPECT_NE(training.place(l).output, nullptr);
    EXPECT_NE(training.place(l).output_gradient, nullptr);
    EXPECT_EQ(inference.place(l).output == nullptr, plan.layers[l].is_training_only) << plan.layers[l].name;
    num_skipped += plan.layers[l].is_training_only ? 1 : 0;
  }
  EXPECT_EQ(num_skipped, 6);
  NetSpec without = test::net_of_three_losses(1);
  std::erase_if(without.layers, [](const LayerSpec& layer) { return layer.name.starts_with("auxiliary"); });
  without.auxiliary_losses.clear();
  const NetPlan main = plan_net(without, {7, 9, 3}, 4);
  EXPECT_EQ(PassMemory::elements(plan, kExamples, Mode::kInference).activations,
            PassMemory::elements(main, kExamples, Mode::kInference).activations);
}

TEST(PassMemory, TheImageNeedsNoGradient) {
  const NetPlan plan = branched_plan();
  EXPECT_EQ(input_gradient_of(plan, 0), InputGradient::kSkipped);
  EXPECT_EQ(input_gradient_of(plan, 1), InputGradient::kWanted);
}

TEST(PassMemory, SaysWhatItAllocates) {
  const NetPlan plan = branched_plan();
  std::int64_t outputs = 0;
  for (const LayerPlan& layer : plan.layers) outputs += layer.output.num_elements();
  const PassMemory::Elements training = PassMemory::elements(plan, kExamples, Mode::kTraining);
  EXPECT_EQ(training.activations, kExamples * outputs);
  EXPECT_GT(training.gradients, 0);
  EXPECT_LT(training.gradients, training.activations);
  const PassMemory::Elements inference = PassMemory::elements(plan, kExamples, Mode::kInference);
  EXPECT_LT(inference.activations, training.activations);
  EXPECT_EQ(inference.gradients, 0);
  EXPECT_EQ(PassMemory::elements(plan, 10 * kExamples, Mode::kTraining).gradients, 10 * training.gradients);
}

}  // namespace
}  // namespace terngrad::pass_memory_test
