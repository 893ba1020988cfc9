#include "trainers/options/train_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "kernels/runtime/machine.h"
#include "nets/device_net.h"

namespace terngrad::train_devices_test {
namespace {

using ::testing::HasSubstr;

TEST(TrainDevices, TheCpuIsAlwaysThere) {
  const TrainDevices choice = choose_devices("cpu", {}, "tf32");
  EXPECT_TRUE(choice.is_cpu());
  EXPECT_EQ(choice.description(), "cpu");
  EXPECT_EQ(choice.note, "");
}

TEST(TrainDevices, WithoutAGpuAutoIsTheCpuAndSaysWhy) {
  if (num_cuda_devices() > 0 && device_nets_unavailable_reason().empty()) GTEST_SKIP() << "there is a GPU";
  const TrainDevices choice = choose_devices("auto", {}, "tf32");
  EXPECT_TRUE(choice.is_cpu());
  const std::string reason = gpu_unavailable_reason(/*joins_others=*/false);
  EXPECT_EQ(choice.note, has_gpu_driver() ? "no GPU: " + reason : "no GPU here");
  try {
    choose_devices("cuda", {}, "tf32");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--device cuda: " + reason));
    EXPECT_THAT(error.what(), HasSubstr("accepted: auto, cpu"));
  }
}

TEST(TrainDevices, OnAGpuAutoTakesIt) {
  if (num_cuda_devices() == 0 || !device_nets_unavailable_reason().empty())
    GTEST_SKIP() << "no GPU: " << cuda_unavailable_reason();
  const TrainDevices choice = choose_devices("auto", {}, "fp32");
  ASSERT_EQ(choice.gpus.size(), 1u);
  EXPECT_EQ(choice.math, MathMode::kFp32);
  EXPECT_THAT(choice.description(), HasSubstr("float32"));
  EXPECT_EQ(choose_devices("cuda", {}, "tf32").math, MathMode::kTf32);
  try {
    choose_devices("cuda", {.count = num_cuda_devices() + 1}, "tf32");
    FAIL() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--num_gpus " + std::to_string(num_cuda_devices() + 1)));
  }
}

}  // namespace
}  // namespace terngrad::train_devices_test
