#include "trainers/commands/compute_benchmark.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/nets/branched_net.h"

namespace terngrad::compute_benchmark_test {
namespace {

const NetOptions kOptions = {.num_local_workers = 2, .examples_per_worker = 3};

std::unique_ptr<Net> branched() { return make_net(test::branched_net(0.5f), {16, 16, 1}, 10, kOptions); }

/// Forwards to a real net, records the calls, and sleeps in the first two.
class NotedNet final : public Net {
 public:
  const std::string& name() const override { return net_->name(); }
  const Layout& layout() const override { return net_->layout(); }
  const Layout& state_layout() const override { return net_->state_layout(); }
  ImageShape image_shape() const override { return net_->image_shape(); }
  int num_classes() const override { return net_->num_classes(); }
  bool is_regularized(int segment) const override { return net_->is_regularized(segment); }
  void initialize(std::uint64_t seed, std::span<float> parameters) const override {
    net_->initialize(seed, parameters);
  }
  void initialize_state(std::span<float> state) const override { net_->initialize_state(state); }
  void predict(std::span<const float>, std::span<const float>, std::span<const float>, int, std::span<float>) override {
    FAIL() << "no part of a step";
  }
  void compute_gradients(std::span<const float> parameters, const TrainBatch& batch, std::span<float* const> gradients,
                         std::span<WorkerLoss> losses, const SegmentReady& on_segment_ready) override {
    steps.push_back(batch.step);
    buffers.insert(gradients.begin(), gradients.end());
    std::this_thread::sleep_for(std::chrono::milliseconds(steps.size() <= 2 ? 100 : 0));
    net_->compute_gradients(parameters, batch, gradients, losses, on_segment_ready);
    for (const WorkerLoss& loss : losses) EXPECT_GT(loss.entropy_loss, 0);
  }

  std::vector<std::uint64_t> steps;
  std::set<float*> buffers;

 private:
  std::unique_ptr<Net> net_ = branched();
};

TEST(ComputeProbe, RunsStepsOfAllWorkersAndTakesTheMedianOfAllButTheFirst) {
  NotedNet net;
  ASSERT_GT(net.state_layout().num_segments(), 0);
  const double seconds = probe_compute(net, kOptions, 3);
  EXPECT_EQ(net.steps, (std::vector<std::uint64_t>{0, 1, 2, 3}));
  EXPECT_EQ(net.buffers.size(), 2u);
  EXPECT_GT(seconds, 0);
  // The only repetition that counts sleeps.
  NotedNet slow;
  EXPECT_GE(probe_compute(slow, kOptions, 1), 0.1);
  EXPECT_EQ(slow.steps.size(), 2u);
}

TEST(ComputeProbe, RefusesNoRepetitions) { EXPECT_THROW(probe_compute(*branched(), kOptions, 0), InvalidArgument); }

}  // namespace
}  // namespace terngrad::compute_benchmark_test
