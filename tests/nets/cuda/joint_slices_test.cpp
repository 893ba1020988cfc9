#include "nets/cuda/joint_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/copy.h"
#include "kernels/tensor/transform.h"
#include "tests/support/cuda_device.h"

namespace terngrad::cuda::joint_slices_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
class CudaJointSlices : public testing::CudaTest {};

/// A library operation on `elements` numbers: result = factor * first. Counts its calls, and may leave the last element
/// unwritten.
struct Scaling {
  std::int64_t elements;
  float factor;
  int* calls;
  bool is_whole = true;

  std::int64_t workspace_bytes() const { return 16; }
  void run(const float* first, const float*, float* result, void*, const Stream& stream) const {
    Stream submitted = stream;
    const auto count = static_cast<std::size_t>(is_whole ? elements : elements - 1);
    copy<float>(std::span(first, count), std::span(result, count), submitted);
    scale(std::span(result, count), factor, submitted);
    ++*calls;
  }
};

constexpr std::int64_t kElements = 5;
constexpr int kSlices = 3;

struct Outcome {
  int slice_calls = 0;
  int joint_calls = 0;
  std::vector<std::string> notes;
};

/// Creates JointSlices of `joint`, runs it, and counts the calls during the run.
Outcome outcome_of(std::unique_ptr<Scaling> joint, int num_slices = kSlices) {
  const Stream stream(Device::cuda());
  Outcome outcome;
  const LayerContext context{
      .libraries = Libraries(stream), .workspace = nullptr, .fork = nullptr, .notes = &outcome.notes};
  if (joint != nullptr) joint->calls = &outcome.joint_calls;
  const JointSlices<Scaling> slices({kElements, 2.0f, &outcome.slice_calls}, std::move(joint),
                                    {.first = kElements, .second = 1, .result = kElements}, num_slices, context,
                                    "layer");
  EXPECT_EQ(slices.workspace_bytes(), 16);
  Stream work = stream;
  const std::vector<float> values(static_cast<std::size_t>(kElements * kSlices), 1.5f);
  const Buffer<float> first = testing::to_device<float>(values, work);
  Buffer<float> result(kElements * kSlices, stream.device());
  outcome.slice_calls = outcome.joint_calls = 0;
  slices.run(first.data(), first.data(), result.data(), nullptr, stream);
  const auto found = testing::to_host<float>(result.span(), work);
  for (std::size_t i = 0; i < static_cast<std::size_t>(kElements * num_slices); ++i) EXPECT_EQ(found[i], 3.0f) << i;
  return outcome;
}

std::unique_ptr<Scaling> joint(float factor, bool is_whole = true) {
  return std::make_unique<Scaling>(Scaling{kElements * kSlices, factor, nullptr, is_whole});
}

TEST_F(CudaJointSlices, OneCallForAllWhereItGivesTheSameBits) {
  const Outcome outcome = outcome_of(joint(2.0f));
  EXPECT_EQ(outcome.joint_calls, 1);
  EXPECT_EQ(outcome.slice_calls, 0);
  EXPECT_THAT(outcome.notes, IsEmpty());
}

TEST_F(CudaJointSlices, ACallForEachWhereItDoesNotOrCannot) {
  const Outcome other = outcome_of(joint(2.0000002f));
  EXPECT_EQ(other.slice_calls, kSlices);
  EXPECT_EQ(other.joint_calls, 0);
  EXPECT_THAT(other.notes, ::testing::ElementsAre(HasSubstr("other bits")));
  EXPECT_THAT(outcome_of(joint(2.0f, /*is_whole=*/false)).notes, ::testing::ElementsAre(HasSubstr("other bits")));
  const Outcome none = outcome_of(nullptr);
  EXPECT_EQ(none.slice_calls, kSlices);
  EXPECT_THAT(none.notes, ::testing::ElementsAre(HasSubstr("no call for all")));
}

TEST_F(CudaJointSlices, OneSliceNeedsNoTest) {
  const Outcome outcome = outcome_of(nullptr, 1);
  EXPECT_EQ(outcome.slice_calls, 1);
  EXPECT_THAT(outcome.notes, IsEmpty());
}

}  // namespace
}  // namespace terngrad::cuda::joint_slices_test
