// Real NCCL with one rank, which needs no second GPU: the operations of a training step, also captured in CUDA graphs,
// and shutdown. See NCCL's documentation, "Using NCCL with CUDA Graphs" and "Error handling and communicator abort".
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "compress/comm/nccl/nccl_communicator.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"

namespace terngrad::nccl_one_rank_test {
namespace {

using testing::to_device;
using testing::to_host;

constexpr std::size_t kCount = std::size_t{1} << 20;

class CudaNcclOneRank : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    if (!has_nccl()) GTEST_SKIP() << "built without NCCL";
    stream_ = std::make_unique<Stream>(Device::cuda());
    communicator_ = join();
    std::iota(bytes_.begin(), bytes_.end(), std::uint8_t{3});
    std::iota(sums_.begin(), sums_.end(), std::uint64_t{1} << 40);
    std::iota(maxima_.begin(), maxima_.end(), 7u);
    bytes_on_device_ = to_device<std::uint8_t>(bytes_, *stream_);
    received_ = to_device<std::uint8_t>(std::vector<std::uint8_t>(kCount), *stream_);
    sums_on_device_ = to_device<std::uint64_t>(sums_, *stream_);
    maxima_on_device_ = to_device<std::uint32_t>(maxima_, *stream_);
  }

  static std::unique_ptr<NcclCommunicator> join() {
    return std::make_unique<NcclCommunicator>(make_nccl_unique_id(), 0, 1, Device::cuda());
  }

  /// Submits all operations, as a training step does.
  void submit_all() {
    const std::vector<DeviceGather> gathers = {{bytes_on_device_.data(), {{0, kCount}}}};
    const std::array<ByteRange, 1> all = {{{0, kCount}}};
    communicator_->all_gather(gathers, *stream_);
    communicator_->all_reduce_sum(sums_on_device_.span(), *stream_);
    communicator_->all_reduce_max(maxima_on_device_.span(), *stream_);
    communicator_->broadcast(bytes_on_device_.span(), 0, *stream_);
    communicator_->all_to_all(bytes_on_device_.data(), all, received_.data(), all, *stream_);
  }

  /// With one rank all operations leave values unchanged.
  void expect_all_arrived() {
    EXPECT_EQ(to_host<std::uint8_t>(bytes_on_device_.span(), *stream_), bytes_);
    EXPECT_EQ(to_host<std::uint8_t>(received_.span(), *stream_), bytes_);
    EXPECT_EQ(to_host<std::uint64_t>(sums_on_device_.span(), *stream_), sums_);
    EXPECT_EQ(to_host<std::uint32_t>(maxima_on_device_.span(), *stream_), maxima_);
    EXPECT_NO_THROW(communicator_->check());
  }

  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(kCount);
  std::vector<std::uint64_t> sums_ = std::vector<std::uint64_t>(kCount);
  std::vector<std::uint32_t> maxima_ = std::vector<std::uint32_t>(kCount);
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<NcclCommunicator> communicator_;
  Buffer<std::uint8_t> bytes_on_device_;
  Buffer<std::uint8_t> received_;
  Buffer<std::uint64_t> sums_on_device_;
  Buffer<std::uint32_t> maxima_on_device_;
};

TEST_F(CudaNcclOneRank, RunsEveryOperation) {
  submit_all();
  expect_all_arrived();
}

TEST_F(CudaNcclOneRank, IsCapturedAndReplayed) {
  submit_all();  // once before the capture, as in training
  const CapturedGraph graph(*stream_, [&] { submit_all(); });
  for (int replay = 0; replay < 20; ++replay) graph.launch(*stream_);
  expect_all_arrived();
  submit_all();
  expect_all_arrived();
}

TEST_F(CudaNcclOneRank, EndsWhatAGraphHasBegunWhenTheGraphIsDestroyed) {
  submit_all();
  {
    const CapturedGraph graph(*stream_, [&] { submit_all(); });
    for (int replay = 0; replay < 20; ++replay) graph.launch(*stream_);
  }
  expect_all_arrived();
}

TEST_F(CudaNcclOneRank, CanBeAbandonedWithAGraphInFlight) {
  submit_all();
  auto graph = std::make_unique<CapturedGraph>(*stream_, [&] { submit_all(); });
  for (int replay = 0; replay < 20; ++replay) graph->launch(*stream_);
  // In the order in which a trainer gives up: first the graphs, then the communicator.
  graph.reset();
  communicator_->abandon();
  stream_->synchronize();
  // The process can join another communicator.
  communicator_ = join();
  submit_all();
  expect_all_arrived();
}

TEST_F(CudaNcclOneRank, MakesManyGroupsOneAfterTheOther) {
  for (int group = 0; group < 5; ++group) {
    communicator_ = join();
    submit_all();
    expect_all_arrived();
  }
}

}  // namespace
}  // namespace terngrad::nccl_one_rank_test
