// Rotations on a GPU against the CPU backend, bit for bit.
#include "kernels/codes/rotate.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/codes/tensor_rotation.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/codes/rotate_cases.h"
#include "support/cuda_device.h"
#include "support/device_tensors.h"
#include "support/gradients.h"

namespace terngrad::cuda_rotate_test {
namespace {

using testing::bits_of;
using testing::RotateCase;
using testing::rotated;
using testing::to_device;
using testing::to_host;
using CudaRotator = testing::CudaTest;

TEST_F(CudaRotator, MatchesTheCpuForEveryRunAndTail) {
  Stream stream(Device::cuda());
  for (const std::int64_t run : {64, 256, 512, 1024, 4096}) {
    for (const int choice : {0, 1, 2, 3}) {
      const Rotation rotation = choice % 2 == 0 ? Rotation::kForward : Rotation::kBackward;
      const TailRotation tails = choice / 2 == 0 ? TailRotation::kOnce : TailRotation::kTwice;
      Rotator rotator(run, Device::cuda(), tails);
      // Several tasks in one launch, one of them empty.
      std::vector<std::vector<float>> values;
      for (const std::size_t n : {1u, 63u, 64u, 100u, 0u, 1023u, 4095u, 4096u, 4097u, 9000u}) {
        values.push_back(testing::gaussian(n, n + 1));
      }
      std::vector<Buffer<float>> there;
      std::vector<Buffer<float>> out;
      std::vector<RotateTask> tasks;
      for (std::size_t i = 0; i < values.size(); ++i) {
        there.push_back(to_device<float>(values[i], stream));
        if (rotation == Rotation::kForward) out.emplace_back(there.back().num_elements(), Device::cuda());
        tasks.push_back({.values = there.back().data(),
                         .first = 4096,
                         .count = there.back().num_elements(),
                         .draw_offset = static_cast<std::int64_t>(64 * i),
                         .out = rotation == Rotation::kForward ? out.back().data() : there.back().data()});
      }
      rotator.run(tasks, rotation, {.seed = 5, .step = 9}, stream);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const RotateCase c{.run = run, .first = 4096, .draw_offset = tasks[i].draw_offset, .tails = tails};
        ASSERT_EQ(bits_of(to_host<float>({tasks[i].out, values[i].size()}, stream)),
                  bits_of(rotated(c, values[i], rotation)))
            << run << ", " << values[i].size() << " elements";
      }
    }
  }
}

TEST_F(CudaRotator, TakesNarrowElements) {
  Stream stream(Device::cuda());
  const std::vector<float> x = testing::gaussian(5003, 6);
  std::vector<std::uint16_t> halves;
  std::vector<float> widened;
  for (const float value : x) {
    halves.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16));
    widened.push_back(std::bit_cast<float>(std::uint32_t{halves.back()} << 16));
  }
  const Buffer<std::uint16_t> there = to_device<std::uint16_t>(halves, stream);
  Buffer<float> out(there.num_elements(), Device::cuda());
  const RotateTask task{
      .values = there.data(), .count = there.num_elements(), .out = out.data(), .type = ElementType::kBfloat16};
  Rotator(1024, Device::cuda(), TailRotation::kTwice)
      .run({&task, 1}, Rotation::kForward, {.seed = 5, .step = 9}, stream);
  EXPECT_EQ(bits_of(to_host<float>(out.span(), stream)),
            bits_of(rotated({.tails = TailRotation::kTwice}, widened, Rotation::kForward)));
}

// turn_back uses the step of the last rotation, although the step on the device has changed.
TEST_F(CudaRotator, RunsFromAGraphWithTheStepOnTheDevice) {
  Stream stream(Device::cuda());
  Layout layout;
  layout.add("w", {9000});
  const testing::Tensors tensors = testing::gaussian_tensors(layout, 8);
  const testing::DeviceTensors there(layout, tensors, stream);
  const int segment = 0;
  TensorRotation rotation(1024, layout, {&segment, 1}, 1, 5, Device::cuda(), TailRotation::kTwice);
  Buffer<std::uint64_t> step(1, Device::cuda());
  const Slice whole{0, 0, 9000};
  const auto submit = [&] { rotation.rotate({&there.table, 1}, {0, step.data()}, stream); };
  copy<std::uint64_t>(std::vector<std::uint64_t>{1}, step.span(), stream);
  submit();
  const CapturedGraph graph(stream, submit);
  for (const std::uint64_t number : {9u, 10u}) {
    copy<std::uint64_t>(std::vector<std::uint64_t>{number}, step.span(), stream);
    graph.launch(stream);
    const float* const found = rotation.rotated()[0].tensor(0);
    const std::vector<float> expected =
        rotated({.step = number, .tails = TailRotation::kTwice}, tensors.values[0], Rotation::kForward);
    EXPECT_EQ(bits_of(to_host<float>({found, 9000}, stream)), bits_of(expected)) << number;
    copy<std::uint64_t>(std::vector<std::uint64_t>{77}, step.span(), stream);
    float* const values = rotation.rotated()[0].tensor(0);
    rotation.turn_back({&values, 1}, {&whole, 1}, stream);
    EXPECT_EQ(bits_of(to_host<float>({found, 9000}, stream)),
              bits_of(rotated({.step = number, .tails = TailRotation::kTwice}, expected, Rotation::kBackward)))
        << number;
  }
}

TEST_F(CudaRotator, RefusesAnotherDevicesStream) {
  Stream cpu;
  EXPECT_THROW(Rotator(64, Device::cuda()).run({}, Rotation::kForward, {}, cpu), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::cuda_rotate_test
