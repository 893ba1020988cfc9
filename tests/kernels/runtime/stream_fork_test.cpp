#include "kernels/runtime/stream_fork.h"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/transform.h"
#include "tests/support/cuda_device.h"

namespace terngrad::stream_fork_test {
namespace {

using testing::to_device;
using testing::to_host;
class CudaStreamFork : public testing::CudaTest {};

constexpr std::size_t kSize = 100003;

/// The stream doubles `base`; two branches and the stream multiply copies of it by 3, 5 and 7; then the stream
/// multiplies the three parts: 105 base^3.
struct Work {
  Stream stream{Device::cuda()};
  StreamFork fork{stream, 2};
  Buffer<float> base = to_device<float>(std::vector<float>(kSize, 1.0f), stream);
  std::vector<Buffer<float>> parts;
  std::vector<float> factors = {3, 5, 7};
  Buffer<float> product = Buffer<float>(kSize, stream.device());

  Work() {
    for (int i = 0; i < 3; ++i) parts.emplace_back(static_cast<std::int64_t>(kSize), stream.device());
  }
  void submit_part(std::size_t index, const Stream& on) {
    Stream copy_of = on;
    copy<float>(base.span(), parts[index].span(), copy_of);
    scale(parts[index].span(), factors[index], copy_of);
  }
  void submit() {
    scale(base.span(), 2.0f, stream);
    fork.begin();
    submit_part(0, fork.branch(0));
    submit_part(1, fork.branch(1));
    submit_part(2, stream);
    fork.join();
    multiply(parts[0].span(), parts[1].span(), product.span(), stream);
    multiply(product.span(), parts[2].span(), product.span(), stream);
  }
  float result() {
    const auto values = to_host<float>(product.span(), stream);
    for (const float value : values) EXPECT_EQ(value, values[0]);
    return values[0];
  }
};

TEST_F(CudaStreamFork, BranchesRunBetweenWhatCameBeforeAndWhatComesAfter) {
  Work work;
  work.submit();
  EXPECT_EQ(work.result(), 105.0f * 8);  // base is 2
  work.submit();
  EXPECT_EQ(work.result(), 105.0f * 64);  // base is 4
}

TEST_F(CudaStreamFork, CanBeCaptured) {
  Work work;
  work.submit();
  const CapturedGraph graph(work.stream, [&] { work.submit(); });
  EXPECT_EQ(work.result(), 105.0f * 8);
  for (const float power : {64.0f, 512.0f}) {
    graph.launch(work.stream);
    EXPECT_EQ(work.result(), 105.0f * power);
  }
}

/// A branch begins several times between work of the stream, and sees the stream's earlier work each time.
void submit_in_turns(Work& work) {
  Stream branch = work.fork.branch(0);
  for (std::size_t turn = 0; turn < 3; ++turn) {
    scale(work.base.span(), 2.0f, work.stream);
    copy<float>(work.base.span(), work.parts[turn].span(), work.stream);
    work.fork.begin();
    scale(work.parts[turn].span(), work.factors[turn], branch);
  }
  work.fork.join();
  multiply(work.parts[0].span(), work.parts[1].span(), work.product.span(), work.stream);
  multiply(work.product.span(), work.parts[2].span(), work.product.span(), work.stream);
}

TEST_F(CudaStreamFork, MayBeginAgainBeforeItIsJoined) {
  Work work;
  submit_in_turns(work);
  EXPECT_EQ(work.result(), 105.0f * 2 * 4 * 8);
  const CapturedGraph graph(work.stream, [&] { submit_in_turns(work); });
  graph.launch(work.stream);
  EXPECT_EQ(work.result(), 105.0f * 16 * 32 * 64);
}

TEST_F(CudaStreamFork, ABranchCanBeWaitedForByItself) {
  Work work;
  scale(work.base.span(), 2.0f, work.stream);
  work.fork.begin();
  Stream branch = work.fork.branch(1);
  copy<float>(work.base.span(), work.parts[1].span(), branch);
  branch.synchronize();
  EXPECT_EQ(to_host<float>(work.parts[1].span().first(1), branch)[0], 2.0f);
  work.fork.join();
  work.stream.synchronize();
  // Branches are captured together with their stream.
  EXPECT_THROW(CapturedGraph(work.stream,
                             [&] {
                               work.fork.begin();
                               branch.synchronize();
                             }),
               DeviceError);
}

TEST_F(CudaStreamFork, ABranchThatDoesNotComeBackCannotBeCaptured) {
  Work work;
  work.submit();
  EXPECT_THROW(CapturedGraph(work.stream,
                             [&] {
                               work.fork.begin();
                               work.submit_part(0, work.fork.branch(0));
                             }),
               DeviceError);
}

TEST_F(CudaStreamFork, ABranchOfBeforeACaptureCannotComeBackInIt) {
  Work work;
  work.submit();
  work.fork.begin();
  EXPECT_THROW(CapturedGraph(work.stream, [&] { work.fork.join(); }), DeviceError);
}

TEST_F(CudaStreamFork, RefusesNoBranches) { EXPECT_THROW(StreamFork(Stream(Device::cuda()), 0), InvalidArgument); }

TEST(StreamFork, RefusesTheCpu) { EXPECT_THROW(StreamFork(Stream(Device::cpu()), 2), NotSupported); }

}  // namespace
}  // namespace terngrad::stream_fork_test
