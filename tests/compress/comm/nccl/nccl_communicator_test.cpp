// NCCL calls of NcclCommunicator, recorded by a stand-in. See also device_communicator_test.cpp (on GPUs).
#include "compress/comm/nccl/nccl_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/cuda_device.h"
#include "support/recorded_nccl.h"
#include "support/thread_communicator.h"

namespace terngrad::nccl_communicator_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::RecordedNccl;

NcclUniqueId id_of(char first) {
  NcclUniqueId id;
  id.bytes[0] = first;
  return id;
}

// Needs streams and device numbers, but does not access device memory.
class CudaNcclCommunicator : public testing::CudaTest {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped()) return;
    stream_ = std::make_unique<Stream>(Device::cuda());
    nccl_.base = bytes_.data();
    nccl_.stream = stream_->native();
  }
  /// Rank 1 of 3; clears the recorded calls.
  NcclCommunicator join() {
    nccl_.calls.clear();
    return {id_of('x'), 1, 3, Device::cuda(), nccl_};
  }
  /// Calls of `operation` on rank 1 of 3, between construction and destruction.
  std::vector<std::string> calls_of(const std::function<void(DeviceCommunicator&)>& operation) {
    NcclCommunicator communicator(id_of('x'), 1, 3, Device::cuda(), nccl_);
    nccl_.calls.clear();
    operation(communicator);
    return std::exchange(nccl_.calls, {});
  }
  std::string message_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const CommunicationError& error) {
      return error.what();
    }
    return "nothing was thrown";
  }

  RecordedNccl nccl_;
  std::vector<std::uint8_t> bytes_ = std::vector<std::uint8_t>(4096);
  std::unique_ptr<Stream> stream_;
};

TEST_F(CudaNcclCommunicator, JoinsWithItsIdRankAndDeviceAndLeaves) {
  {
    const NcclCommunicator communicator(id_of('x'), 1, 3, Device::cuda(), nccl_);
    EXPECT_EQ(communicator.rank(), 1);
    EXPECT_EQ(communicator.size(), 3);
    EXPECT_EQ(communicator.device(), Device::cuda());
  }
  EXPECT_THAT(nccl_.calls, ElementsAre("init_rank 1 of 3 id x device 0", "destroy as 1"));
}

TEST_F(CudaNcclCommunicator, MakesGroupsOfOneProcessAndIds) {
  {
    const std::array devices = {Device::cuda()};
    const auto group = make_nccl_communicators(devices, nccl_);
    ASSERT_EQ(group.size(), 1u);
    EXPECT_EQ(group[0]->rank(), 0);
    EXPECT_EQ(group[0]->size(), 1);
  }
  EXPECT_THAT(nccl_.calls, ElementsAre("init_all 0", "destroy as 0"));
  EXPECT_EQ(make_nccl_unique_id(nccl_), id_of('i'));
}

TEST_F(CudaNcclCommunicator, JoinsTheGpusOfAllProcessesByTheIdOfTheFirst) {
  const std::array devices = {Device::cuda()};
  std::vector<std::vector<std::string>> calls(3);
  const auto errors = testing::run_ranks(3, [&](const std::shared_ptr<Communicator>& processes) {
    RecordedNccl nccl;
    {
      const auto group = join_nccl_communicators(devices, *processes, nccl);
      ASSERT_EQ(group.size(), 1u);
      EXPECT_EQ(group[0]->rank(), processes->rank());
      EXPECT_EQ(group[0]->size(), 3);
    }
    calls[static_cast<std::size_t>(processes->rank())] = nccl.calls;
  });
  for (const auto& error : errors) EXPECT_FALSE(error);
  EXPECT_THAT(calls[0], ElementsAre("get_unique_id", "init_ranks from 0 of 3 id i devices 0", "destroy as 0"));
  EXPECT_THAT(calls[1], ElementsAre("init_ranks from 1 of 3 id i devices 0", "destroy as 1"));
  EXPECT_THAT(calls[2], ElementsAre("init_ranks from 2 of 3 id i devices 0", "destroy as 2"));
}

TEST_F(CudaNcclCommunicator, IsSplitByColorsInTheOrderOfRanks) {
  NcclCommunicator communicator = join();
  {
    const auto part = communicator.split(std::vector<int>{4, 2, 2});
    EXPECT_EQ(part->rank(), 0);
    EXPECT_EQ(part->size(), 2);
  }
  EXPECT_THAT(nccl_.calls,
              ElementsAre("init_rank 1 of 3 id x device 0", "split as 1 color 2 key 1 device 0", "destroy as 2"));
  nccl_.failing = "split";
  EXPECT_THAT(message_of([&] {
                communicator.split(std::vector<int>{0, 0, 0});
              }),
              HasSubstr("rank 1 of 3 on cuda:0: split failed: error 6"));
}

TEST_F(CudaNcclCommunicator, AFailureToJoinIsSaidAndNothingIsLeft) {
  const std::array devices = {Device::cuda()};
  const auto processes = make_self_communicator();
  nccl_.failing = "init_ranks";
  EXPECT_THAT(message_of([&] { join_nccl_communicators(devices, *processes, nccl_); }),
              AllOf(HasSubstr("ranks 0 to 0 of 1: joining the group failed"), HasSubstr("error 6 (peer 1 left)")));
  EXPECT_THAT(nccl_.calls, Contains("abort as 0"));
  // If making the id fails, no rank waits for it.
  std::vector<std::string> words(2);
  testing::run_ranks(2, [&](const std::shared_ptr<Communicator>& group) {
    RecordedNccl nccl;
    nccl.failing = "get_unique_id";
    words[static_cast<std::size_t>(group->rank())] =
        message_of([&] { join_nccl_communicators(devices, *group, nccl); });
  });
  EXPECT_THAT(words[0], HasSubstr("making the id of a group failed"));
  EXPECT_THAT(words[1], HasSubstr("the first process could not make the group's id"));
}

TEST_F(CudaNcclCommunicator, GathersEqualPartsThatTouchAtOnceAndOthersByBroadcastsInOneGroup) {
  const std::vector<DeviceGather> gathers = {{bytes_.data(), {{8, 24}, {32, 24}, {56, 24}}},
                                             {bytes_.data() + 100, {{0, 7}, {7, 0}, {20, 9}}},
                                             {bytes_.data() + 200, {{0, 4}, {8, 4}, {16, 4}}},
                                             {bytes_.data() + 300, {{0, 0}, {0, 0}, {0, 0}}}};
  EXPECT_THAT(calls_of([&](DeviceCommunicator& c) { c.all_gather(gathers, *stream_); }),
              ElementsAre("group_start", "all_gather +32 into +8 24 uint8 as 1 stream",
                          "broadcast +100 in place 7 uint8 root 0 as 1 stream",
                          "broadcast +120 in place 9 uint8 root 2 as 1 stream",
                          "broadcast +200 in place 4 uint8 root 0 as 1 stream",
                          "broadcast +208 in place 4 uint8 root 1 as 1 stream",
                          "broadcast +216 in place 4 uint8 root 2 as 1 stream", "group_end"));
}

TEST_F(CudaNcclCommunicator, ReducesIntegersInPlace) {
  auto* const sums = reinterpret_cast<std::uint64_t*>(bytes_.data());
  auto* const maxima = reinterpret_cast<std::uint32_t*>(bytes_.data() + 64);
  EXPECT_THAT(calls_of([&](DeviceCommunicator& c) {
                c.all_reduce_sum({sums, 5}, *stream_);
                c.all_reduce_max({maxima, 3}, *stream_);
              }),
              ElementsAre("group_start", "all_reduce +0 in place 5 uint64 sum as 1 stream", "group_end", "group_start",
                          "all_reduce +64 in place 3 uint32 max as 1 stream", "group_end"));
}

TEST_F(CudaNcclCommunicator, AddsFloatsInPlace) {
  EXPECT_THAT(calls_of([&](DeviceCommunicator& c) {
                c.vendor_sum({bytes_.data() + 4, 5, ElementType::kFloat32}, *stream_);
                c.vendor_sum({bytes_.data(), 6, ElementType::kBfloat16}, *stream_);
                c.vendor_sum({bytes_.data(), 7, ElementType::kFloat16}, *stream_);
              }),
              ElementsAre("group_start", "all_reduce +4 in place 5 float32 sum as 1 stream", "group_end",  //
                          "group_start", "all_reduce +0 in place 6 bfloat16 sum as 1 stream", "group_end",
                          "group_start", "all_reduce +0 in place 7 float16 sum as 1 stream", "group_end"));
}

TEST_F(CudaNcclCommunicator, SendsAndReceivesInOneGroup) {
  const std::array<ByteRange, 3> to = {ByteRange{0, 4}, {10, 5}, {20, 0}};
  const std::array<ByteRange, 3> from = {ByteRange{100, 0}, {110, 5}, {120, 6}};
  EXPECT_THAT(
      calls_of([&](DeviceCommunicator& c) { c.all_to_all(bytes_.data(), to, bytes_.data() + 1000, from, *stream_); }),
      ElementsAre("group_start", "send +0 4 uint8 to 0 as 1 stream", "send +10 5 uint8 to 1 as 1 stream",
                  "receive +1110 5 uint8 from 1 as 1 stream", "receive +1120 6 uint8 from 2 as 1 stream", "group_end"));
}

TEST_F(CudaNcclCommunicator, BroadcastsInPlace) {
  EXPECT_THAT(calls_of([&](DeviceCommunicator& c) {
                c.broadcast({bytes_.data() + 3, 17}, 2, *stream_);
              }),
              ElementsAre("group_start", "broadcast +3 in place 17 uint8 root 2 as 1 stream", "group_end"));
}

TEST_F(CudaNcclCommunicator, AsksNothingWhereNoBytesMove) {
  const std::array<ByteRange, 3> none = {};
  const std::vector<DeviceGather> gathers = {{bytes_.data(), {{0, 0}, {0, 0}, {0, 0}}}};
  EXPECT_THAT(calls_of([&](DeviceCommunicator& c) {
                c.all_gather(gathers, *stream_);
                c.all_reduce_sum({}, *stream_);
                c.all_to_all(bytes_.data(), none, bytes_.data(), none, *stream_);
                c.broadcast({}, 0, *stream_);
              }),
              ElementsAre());
}

TEST_F(CudaNcclCommunicator, NamesRankOperationAndNcclsWordsAndAbortsAfterAFailure) {
  const std::vector<DeviceGather> gathers = {{bytes_.data(), {{0, 7}, {7, 1}, {20, 9}}}};
  nccl_.failing = "broadcast +7";
  {
    NcclCommunicator communicator = join();
    EXPECT_THAT(message_of([&] { communicator.all_gather(gathers, *stream_); }),
                AllOf(HasSubstr("[nccl] rank 1 of 3 on cuda:0: all_gather failed: error 6 (peer 1 left), at "),
                      HasSubstr("nccl_communicator.cpp:")));
  }
  // Calls after the failure are skipped, but the thread's group is ended.
  EXPECT_THAT(nccl_.calls, ElementsAre("init_rank 1 of 3 id x device 0", "group_start",
                                       "broadcast +0 in place 7 uint8 root 0 as 1 stream",
                                       "broadcast +7 in place 1 uint8 root 1 as 1 stream", "group_end", "abort as 1"));
}

TEST_F(CudaNcclCommunicator, IsAbortedWhereAnExceptionPasses) {
  // Another exception: the other ranks may never start the pending operations, so the communicator is aborted.
  try {
    const NcclCommunicator communicator = join();
    throw DataError("of a file");
  } catch (const DataError&) {
    // A communicator created while an exception is handled is destroyed normally.
    EXPECT_THAT(nccl_.calls, Contains("abort as 1"));
    { const NcclCommunicator another = join(); }
    EXPECT_THAT(nccl_.calls, Contains("destroy as 1"));
  }
}

TEST_F(CudaNcclCommunicator, ReportsFailuresOfEveryOperation) {
  auto* const sums = reinterpret_cast<std::uint64_t*>(bytes_.data());
  auto* const maxima = reinterpret_cast<std::uint32_t*>(bytes_.data());
  const std::array<ByteRange, 3> parts = {ByteRange{0, 4}, {4, 4}, {8, 4}};
  const DeviceGather gather{bytes_.data(), {parts.begin(), parts.end()}};
  const std::vector<std::pair<std::string, std::function<void(DeviceCommunicator&)>>> operations = {
      {"all_gather",
       [&](DeviceCommunicator& c) {
         c.all_gather({&gather, 1}, *stream_);
       }},
      {"all_reduce_sum",
       [&](DeviceCommunicator& c) {
         c.all_reduce_sum({sums, 1}, *stream_);
       }},
      {"all_reduce_max",
       [&](DeviceCommunicator& c) {
         c.all_reduce_max({maxima, 1}, *stream_);
       }},
      {"all_to_all",
       [&](DeviceCommunicator& c) { c.all_to_all(bytes_.data(), parts, bytes_.data() + 64, parts, *stream_); }},
      {"vendor_sum",
       [&](DeviceCommunicator& c) {
         c.vendor_sum({sums, 1}, *stream_);
       }},
      {"broadcast", [&](DeviceCommunicator& c) {
         c.broadcast({bytes_.data(), 1}, 0, *stream_);
       }}};
  for (const auto& [name, operation] : operations) {
    for (const char* failing :
         {"group_start", "group_end", "all_gather", "all_reduce", "send", "receive", "broadcast"}) {
      nccl_.failing.clear();
      const std::vector<std::string> calls = calls_of(operation);
      bool is_called = false;
      for (const std::string& call : calls) is_called |= call.starts_with(failing);
      nccl_.failing = failing;
      const std::string message = message_of([&] { calls_of(operation); });
      if (is_called) {
        EXPECT_THAT(message, HasSubstr("rank 1 of 3 on cuda:0: " + name + " failed: error 6")) << failing;
      } else {
        EXPECT_EQ(message, "nothing was thrown") << name << " " << failing;
      }
    }
  }
}

TEST_F(CudaNcclCommunicator, FindsFailuresOfOperationsSubmittedEarlier) {
  {
    NcclCommunicator communicator = join();
    EXPECT_NO_THROW(communicator.check());
    nccl_.async_error = NcclApi::kInProgress;
    EXPECT_NO_THROW(communicator.check());
    nccl_.async_error = 2;
    nccl_.last.clear();
    EXPECT_THAT(message_of([&] { communicator.check(); }),
                HasSubstr("rank 1 of 3 on cuda:0: an operation submitted earlier failed: error 2, at "));
  }
  EXPECT_THAT(nccl_.calls, Contains("abort as 1"));
  nccl_.failing = "get_async_error";
  NcclCommunicator communicator = join();
  EXPECT_THAT(message_of([&] { communicator.check(); }), HasSubstr("asking for errors failed: error 6"));
}

TEST_F(CudaNcclCommunicator, SaysWhyAGroupCannotBeMade) {
  nccl_.failing = "init_rank";
  EXPECT_THAT(message_of([&] { join(); }),
              HasSubstr("rank 1 of 3 on cuda:0: joining the group failed: error 6 (peer 1 left)"));
  nccl_.failing = "init_all";
  const std::array devices = {Device::cuda()};
  EXPECT_THAT(message_of([&] { make_nccl_communicators(devices, nccl_); }),
              HasSubstr("making a group of 1 GPUs failed: error 6"));
  nccl_.failing = "get_unique_id";
  EXPECT_THAT(message_of([&] { make_nccl_unique_id(nccl_); }), HasSubstr("making the id of a group failed: error 6"));
  // Nothing was created, so nothing is destroyed.
  EXPECT_THAT(nccl_.calls, ElementsAre("init_rank 1 of 3 id x device 0", "init_all 0", "get_unique_id"));
}

TEST_F(CudaNcclCommunicator, RefusesWhatNoGroupCanBe) {
  EXPECT_THROW(NcclCommunicator(id_of('x'), 3, 3, Device::cuda(), nccl_), InvalidArgument);
  EXPECT_THROW(NcclCommunicator(id_of('x'), -1, 3, Device::cuda(), nccl_), InvalidArgument);
  EXPECT_THROW(NcclCommunicator(id_of('x'), 0, 0, Device::cuda(), nccl_), InvalidArgument);
  EXPECT_THROW(NcclCommunicator(id_of('x'), 0, 1, Device::cpu(), nccl_), InvalidArgument);
  EXPECT_THROW(make_nccl_communicators({}, nccl_), InvalidArgument);
  const std::array twice = {Device::cuda(), Device::cuda()};
  EXPECT_THROW(make_nccl_communicators(twice, nccl_), InvalidArgument);
  const std::array no_gpu = {Device::cpu()};
  EXPECT_THROW(make_nccl_communicators(no_gpu, nccl_), InvalidArgument);
  EXPECT_THAT(nccl_.calls, ElementsAre());
  NcclCommunicator communicator = join();
  Stream elsewhere(Device::cpu());
  EXPECT_THROW(communicator.broadcast({bytes_.data(), 1}, 0, elsewhere), InvalidArgument);
}

TEST_F(CudaNcclCommunicator, OwnsItsHandleOnce) {
  {
    NcclHandle handle(nccl_, nullptr);
    NcclApi::Handle made = nullptr;
    nccl_.init_rank(made, 2, id_of('x'), 0, 0);
    NcclHandle first(nccl_, made);
    NcclHandle second(std::move(first));
    handle = std::move(second);
    EXPECT_EQ(handle.get(), made);
    nccl_.calls.clear();
  }
  EXPECT_THAT(nccl_.calls, ElementsAre("destroy as 0"));
}

}  // namespace
}  // namespace terngrad::nccl_communicator_test
