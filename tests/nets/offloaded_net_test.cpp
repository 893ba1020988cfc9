#include "nets/offloaded_net.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "nets/loss.h"
#include "tests/nets/branched_net.h"
#include "tests/nets/cuda/net_on_device.h"

namespace terngrad::offloaded_net_test {
namespace {

using test::NetOnDevice;
using test::tensor_bits;
class CudaOffloadedNet : public testing::CudaTest {};

constexpr ImageShape kImage{9, 8, 4};
constexpr int kClasses = 5;
constexpr int kWorkers = 3;
constexpr int kExamples = 2;
constexpr int kFirst = 4;  // global number of the first worker

/// `count` GPUs; with fewer GPUs some repeat, since nets on one GPU have their own streams.
std::vector<Device> gpus(int count) {
  std::vector<Device> gpus;
  for (int i = 0; i < count; ++i) gpus.push_back(Device::cuda(i % num_cuda_devices()));
  return gpus;
}

/// An offloaded net with the caller's arrays in host memory.
struct InHostMemory {
  OffloadedNet net;
  std::vector<float> images;
  std::vector<std::int32_t> labels;
  std::vector<std::vector<float>> states, gradients;
  std::vector<WorkerLoss> losses{kWorkers};

  InHostMemory(const NetSpec& spec, int num_gpus)
      : net(spec, kImage, kClasses,
            {.num_local_workers = kWorkers,
             .examples_per_worker = kExamples,
             .first_local_worker = kFirst,
             .seed = NetOnDevice::kSeed},
            MathMode::kFp32, gpus(num_gpus)) {
    for (int w = 0; w < kWorkers; ++w) {
      states.emplace_back(static_cast<std::size_t>(net.state_layout().flat_elements()));
      net.initialize_state(states.back());
      // NaN reveals elements that are not written.
      gradients.emplace_back(static_cast<std::size_t>(net.layout().flat_elements()), NAN);
    }
  }

  void load(const NetOnDevice& other, std::uint64_t step) {
    images.clear();
    labels.clear();
    for (int w = 0; w < kWorkers; ++w) {
      const auto own = other.images_of(kFirst + w, step);
      images.insert(images.end(), own.begin(), own.end());
      const auto own_labels = other.labels_of();
      labels.insert(labels.end(), own_labels.begin(), own_labels.end());
    }
  }

  void run(std::span<const float> parameters, std::uint64_t step, const SegmentReady& on_segment = {}) {
    std::vector<float*> state_pointers;
    std::vector<float*> gradient_pointers;
    for (auto& state : states) state_pointers.push_back(state.data());
    for (auto& gradient : gradients) gradient_pointers.push_back(gradient.data());
    net.compute_gradients(parameters, {.images = images, .labels = labels, .step = step, .states = state_pointers},
                          gradient_pointers, losses, on_segment);
  }
};

TEST_F(CudaOffloadedNet, HasTheBitsOfTheNetInDeviceMemoryOnAnyNumberOfGpus) {
  const NetSpec spec = test::branched_net(0.6f);
  for (int num_gpus = 1; num_gpus <= kWorkers; ++num_gpus) {
    SCOPED_TRACE(num_gpus);
    NetOnDevice expected(spec, kImage, kClasses, kWorkers, kExamples, kFirst);
    InHostMemory ours(spec, num_gpus);
    ASSERT_GT(ours.net.state_layout().num_segments(), 0);
    for (const std::uint64_t step : {6u, 7u}) {
      expected.run(step);
      ours.load(expected, step);
      ours.run(expected.host_parameters, step);
    }
    const std::vector<WorkerLoss> losses = expected.host_losses();
    for (int w = 0; w < kWorkers; ++w) {
      const auto worker = static_cast<std::size_t>(w);
      EXPECT_EQ(tensor_bits(ours.gradients[worker], ours.net.layout()),
                tensor_bits(expected.gradient(w), ours.net.layout()));
      EXPECT_EQ(tensor_bits(ours.states[worker], ours.net.state_layout()),
                tensor_bits(expected.state(w), ours.net.state_layout()));
      EXPECT_EQ(ours.losses[worker].entropy_loss, losses[worker].entropy_loss);
      EXPECT_EQ(ours.losses[worker].num_correct, losses[worker].num_correct);
    }
  }
}

TEST_F(CudaOffloadedNet, LeavesWhatLiesBetweenTensorsAsItIs) {
  const NetSpec spec = test::branched_net(1.0f);
  NetOnDevice other(spec, kImage, kClasses, kWorkers, kExamples, kFirst);
  InHostMemory ours(spec, 1);
  ours.load(other, 3);
  ours.run(other.host_parameters, 3);
  const Layout& layout = ours.net.layout();
  std::vector<bool> is_of_a_tensor(static_cast<std::size_t>(layout.flat_elements()));
  for (const Segment& tensor : layout.segments()) {
    for (std::int64_t i = 0; i < tensor.num_elements; ++i) {
      is_of_a_tensor[static_cast<std::size_t>(tensor.offset + i)] = true;
    }
  }
  EXPECT_LT(layout.num_elements(), layout.flat_elements());
  for (const std::vector<float>& gradient : ours.gradients) {
    for (std::size_t i = 0; i < gradient.size(); ++i) ASSERT_EQ(std::isnan(gradient[i]), !is_of_a_tensor[i]) << i;
  }
}

TEST_F(CudaOffloadedNet, AnnouncesEveryTensorOfEveryWorkerWhenItIsThere) {
  const NetSpec spec = test::branched_net(1.0f);
  NetOnDevice other(spec, kImage, kClasses, kWorkers, kExamples, kFirst);
  InHostMemory ours(spec, 1);
  ours.load(other, 3);
  std::vector<std::pair<int, int>> announced;
  ours.run(other.host_parameters, 3, [&](int worker, int segment) {
    const Segment& tensor = ours.net.layout().segment(segment);
    EXPECT_FALSE(std::isnan(ours.gradients[static_cast<std::size_t>(worker)][static_cast<std::size_t>(tensor.offset)]));
    announced.emplace_back(segment, worker);
  });
  std::vector<std::pair<int, int>> expected;
  for (const int segment : ours.net.gradient_order()) {
    for (int w = 0; w < kWorkers; ++w) expected.emplace_back(segment, w);
  }
  EXPECT_EQ(announced, expected);
}

TEST_F(CudaOffloadedNet, PredictsAsTheNetInDeviceMemory) {
  const NetSpec spec = test::branched_net(1.0f);
  NetOnDevice other(spec, kImage, kClasses, kWorkers, kExamples);
  InHostMemory ours(spec, 1);
  std::vector<float> state(static_cast<std::size_t>(ours.net.state_layout().flat_elements()));
  ours.net.initialize_state(state);
  Stream& stream = other.stream;
  const Buffer<float> state_there = testing::to_device<float>(state, stream);
  // Fewer images after more: buffers are reused.
  for (const int count : {7, 3}) {
    const auto images = test::random_floats(static_cast<std::size_t>(count * kImage.num_elements()), 5);
    const auto size = static_cast<std::size_t>(count * kClasses);
    std::vector<float> logits(size);
    ours.net.predict(other.host_parameters, state, images, count, logits);
    const Buffer<float> images_there = testing::to_device<float>(images, stream);
    Buffer<float> expected(count * kClasses, stream.device());
    other.net->predict(other.parameters.span(), state_there.span(), images_there.span(), count, expected.span());
    EXPECT_EQ(logits, testing::to_host<float>(expected.span(), stream));
  }
}

TEST_F(CudaOffloadedNet, RefusesWhatItCannotCompute) {
  const NetSpec spec = test::branched_net(1.0f);
  NetOnDevice other(spec, kImage, kClasses, kWorkers, kExamples, kFirst);
  InHostMemory ours(spec, 1);
  ours.load(other, 3);
  ours.labels[4] = kClasses;
  EXPECT_THROW(ours.run(other.host_parameters, 3), InvalidArgument);
  ours.labels[4] = -1;
  EXPECT_THROW(ours.run(other.host_parameters, 3), InvalidArgument);
  ours.labels[4] = 0;
  EXPECT_THROW(ours.run(other.host_parameters, std::uint64_t{1} << 40), InvalidArgument);
  ours.labels.pop_back();
  EXPECT_THROW(ours.run(other.host_parameters, 3), InvalidArgument);
  EXPECT_THROW(InHostMemory(spec, 0), InvalidArgument);
  const std::vector<Device> twice(2, Device::cuda());
  EXPECT_THROW(OffloadedNet(spec, kImage, kClasses, {}, MathMode::kFp32, twice), InvalidArgument);
  const std::array<Device, 1> cpu = {Device::cpu()};
  EXPECT_THROW(OffloadedNet(spec, kImage, kClasses, {}, MathMode::kFp32, cpu), NotSupported);
  const NetOptions own_loss{.loss = mean_squared_error};
  EXPECT_THROW(OffloadedNet(spec, kImage, kClasses, own_loss, MathMode::kFp32, gpus(1)), NotSupported);
  EXPECT_FALSE(ours.net.writes_logits());
}

}  // namespace
}  // namespace terngrad::offloaded_net_test
