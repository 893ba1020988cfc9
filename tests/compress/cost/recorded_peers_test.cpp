#include "compress/cost/recorded_peers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad::recorded_peers_test {
namespace {

using ::testing::ElementsAre;

Parcels parcels_of(const std::vector<std::string>& texts) {
  Parcels parcels;
  for (const std::string& text : texts) {
    parcels.append({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  }
  return parcels;
}

std::vector<std::string> texts_of(const Parcels& parcels) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < parcels.count(); ++i) {
    const auto bytes = parcels.parcel(i);
    texts.emplace_back(bytes.begin(), bytes.end());
  }
  return texts;
}

/// Results of one rank in a step of three operations, each of which depends on the previous one.
struct Got {
  std::vector<std::string> gathered, scattered;
  std::vector<std::uint64_t> sums;
};

Got step(Communicator& communicator) {
  Got got;
  const std::string name(1, static_cast<char>('a' + communicator.rank()));
  Parcels mine = parcels_of({name});
  Parcels all;
  communicator.all_gather(mine, all);
  got.gathered = texts_of(all);
  std::vector<Parcels> outgoing;
  for (int to = 0; to < communicator.size(); ++to) {
    outgoing.push_back(parcels_of({name + got.gathered.back() + std::to_string(to)}));
  }
  Parcels incoming;
  communicator.all_to_all(outgoing, incoming);
  got.scattered = texts_of(incoming);
  got.sums = {std::uint64_t{1} << (8 * communicator.rank()), got.scattered.size(), 7, 7};
  communicator.all_reduce_sum(got.sums);
  return got;
}

TEST(RecordedPeers, OneRankGetsWhatItWouldBesideTheOthers) {
  RecordedPeers peers(3, [](const std::shared_ptr<Communicator>& communicator) { step(*communicator); });
  ASSERT_EQ(peers.operations().size(), 3u);
  peers.keep_only(1);
  ReplayCommunicator communicator(peers, 1);
  for (int repetition = 0; repetition < 2; ++repetition) {
    communicator.begin_step();
    const Got got = step(communicator);
    EXPECT_THAT(got.gathered, ElementsAre("a", "b", "c"));
    EXPECT_THAT(got.scattered, ElementsAre("ac1", "bc1", "cc1"));
    EXPECT_THAT(got.sums, ElementsAre(0x010101u, 9u, 21u, 21u));
  }
  EXPECT_GT(communicator.transport_seconds(), 0);
}

TEST(RecordedPeers, AProcessAloneHandsNothingOver) {
  int runs = 0;
  const RecordedPeers peers(1, [&](const std::shared_ptr<Communicator>&) { ++runs; });
  EXPECT_TRUE(peers.operations().empty());
  EXPECT_EQ(runs, 0);
}

TEST(RecordedPeers, RefuseAnotherStepThanTheRecordedOne) {
  RecordedPeers peers(2, [](const std::shared_ptr<Communicator>& communicator) { step(*communicator); });
  ReplayCommunicator communicator(peers, 0);
  std::vector<std::uint64_t> sums(4);
  EXPECT_THROW(communicator.all_reduce_sum(sums), InvalidArgument);
  std::vector<std::uint32_t> max(1);
  EXPECT_THROW(communicator.all_reduce_max(max), InvalidArgument);
}

TEST(RecordedPeers, ErrorsOfARankAreThoseOfTheRecording) {
  EXPECT_THROW(RecordedPeers(2, [](const std::shared_ptr<Communicator>&) { throw CommunicationError("x"); }),
               CommunicationError);
}

}  // namespace
}  // namespace terngrad::recorded_peers_test
