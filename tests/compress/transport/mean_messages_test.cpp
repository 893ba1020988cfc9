#include "compress/transport/mean_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <utility>

#include "compress/route/codec_shards.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"
#include "support/mean_leg.h"
#include "support/reference.h"
#include "support/thread_communicator.h"

namespace terngrad::mean_messages_test {
namespace {

using testing::blank_tensors;
using ::testing::HasSubstr;
using testing::kDownlinkCodecs;
using testing::MeanLeg;
using testing::Tensors;
using ::testing::ThrowsMessage;

constexpr MessageContext kContext{1, 2, 3};

/// A rank that receives parcels of the test's choice in place of its own.
class Replaced final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(Parcels& mine, Parcels& all) override {
    const Parcels& given = received != nullptr ? *received : mine;
    all.clear();
    sent.clear();
    for (std::size_t i = 0; i < mine.count(); ++i) sent.append(mine.parcel(i));
    for (std::size_t i = 0; i < given.count(); ++i) all.append(given.parcel(i));
  }
  void all_to_all(std::span<Parcels>, Parcels&) override {}
  void all_reduce_sum(std::span<std::uint64_t>) override {}
  void all_reduce_max(std::span<std::uint32_t>) override {}
  void broadcast(std::span<std::uint8_t>, int) override {}
  void barrier() override {}

  Parcels sent;
  const Parcels* received = nullptr;  // null: its own
};

/// One rank's mean in messages, of which each shard of five belongs to a worker.
struct Leg : MeanLeg {
  MeanMessages messages;

  explicit Leg(DownlinkCodec codec, const TernaryOptions& ternary = {}, int rank_number = 0, int size = 1)
      : MeanLeg(codec, ternary, true, rank_number, size),
        messages(layout, plan, forms, shards_by_codec(layout, plan, kWorkers),
                 shards_of_ranks(ranks, ShardOwners::kWorkers)[static_cast<std::size_t>(rank)]) {
    downlink = std::make_unique<Downlink>(setup, plan, coders, forms, messages.parts(), /*others_read=*/true);
  }
  void encode(const Tensors& mean, Communicator& communicator) {
    downlink->measure(mean.table, stream);
    for (std::size_t group = 0; group < coders.size(); ++group) {
      if (!downlink->maxima(group).empty()) communicator.all_reduce_max(downlink->maxima(group));
    }
    downlink->scale(stream);
    messages.begin(*downlink, kContext);
    downlink->encode(mean.table, {kContext.step, nullptr}, stream);
  }
  void gather(Communicator& communicator) { messages.gather(*downlink, kContext, communicator); }
};

/// The messages that a rank with all shards sends.
Parcels sent_by(Leg& leg) {
  Replaced alone;
  leg.encode(leg.aggregated(), alone);
  leg.gather(alone);
  return std::move(alone.sent);
}

/// Lets a leg read messages in place of its own.
void read(Leg& leg, const Parcels& messages) {
  Replaced replaced;
  leg.encode(leg.aggregated(), replaced);
  replaced.received = &messages;
  leg.gather(replaced);
}

TEST(MeanMessages, BringEveryRankTheSameMean) {
  for (const DownlinkCodec codec : kDownlinkCodecs) {
    for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kTMask, TernaryFormat::kTrans}) {
      const TernaryOptions ternary{.scope = ScalerScope::kBlock, .block_elements = 6400, .format = format};
      Leg whole(codec, ternary);
      const Tensors aggregated = whole.aggregated();
      Tensors expected(whole.layout, aggregated.values);
      Replaced alone;
      whole.encode(expected, alone);
      whole.gather(alone);
      whole.downlink->decode(expected.table, whole.stream);
      const auto errors = testing::run_ranks(3, [&](const std::shared_ptr<Communicator>& communicator) {
        Leg leg(codec, ternary, communicator->rank(), 3);
        Tensors mean = blank_tensors(leg.layout);
        for (auto& values : mean.values) std::ranges::fill(values, std::numeric_limits<float>::quiet_NaN());
        for (const MeanPart& part : leg.messages.parts()) {
          if (!part.is_own) continue;
          std::copy_n(aggregated.table.slice(part.slice), part.slice.count, mean.table.slice(part.slice));
        }
        leg.encode(mean, *communicator);
        leg.gather(*communicator);
        leg.downlink->decode(mean.table, leg.stream);
        ASSERT_TRUE(testing::same_bits(expected.values, mean)) << word_of(codec) << communicator->rank();
      });
      for (const auto& error : errors) {
        if (error) std::rethrow_exception(error);
      }
    }
  }
}

TEST(MeanMessages, SumsAreLanesOfTheTernaryCodec) {
  Leg leg(DownlinkCodec::kSums);
  const Tensors sums = leg.aggregated();
  const Parcels sent = sent_by(leg);
  Message message;
  read_message(sent.parcel(0), MessageKind::kMean, kContext, leg.layout, message);
  const EncodedSlice& encoded = message.records[0].encoded;
  EXPECT_EQ(message.records[0].codec, 3);
  EXPECT_EQ(encoded.format, 4);
  EXPECT_EQ(encoded.scalers[0], leg.shared(0) / MeanLeg::kWorkers);
  const std::vector<int> integers(sums.values[0].begin(), sums.values[0].begin() + encoded.slice.count);
  EXPECT_EQ(reference::Bytes(encoded.payload.begin(), encoded.payload.end()),
            reference::pack_lanes(integers, MeanLeg::kWorkers, MeanLeg::kWorkers));
}

TEST(MeanMessages, RefuseAnotherShardAndAnotherNumberOfThem) {
  for (const DownlinkCodec codec : kDownlinkCodecs) {
    Leg leg(codec);
    const Parcels sent = sent_by(leg);
    Parcels swapped;
    for (const std::size_t shard : {0u, 2u, 1u, 3u, 4u}) swapped.append(sent.parcel(shard));
    EXPECT_THAT([&] { read(leg, swapped); }, ThrowsMessage<CommunicationError>(HasSubstr("shard 1 came from")));
    Parcels fewer;
    fewer.append(sent.parcel(0));
    EXPECT_THAT([&] { read(leg, fewer); }, ThrowsMessage<CommunicationError>(HasSubstr("1 aggregated shards came")));
    EXPECT_NO_THROW(read(leg, sent));
  }
}

TEST(MeanMessages, RefuseThoseOfAnotherDownlinkCodec) {
  for (const DownlinkCodec codec : kDownlinkCodecs) {
    for (const DownlinkCodec other : kDownlinkCodecs) {
      if (other == codec) continue;
      Leg sender(codec);
      Leg receiver(other);
      EXPECT_THAT([&] { read(receiver, sent_by(sender)); },
                  ThrowsMessage<CommunicationError>(HasSubstr("of tensor 'big': it is not the one of its shard")))
          << word_of(codec) << " to " << word_of(other);
    }
  }
}

TEST(MeanMessages, RefuseAnotherFormatNumberOrValueOfScalers) {
  Leg t2(DownlinkCodec::kTernary);
  Leg t5(DownlinkCodec::kTernary, {.format = TernaryFormat::kT5});
  EXPECT_THROW(read(t2, sent_by(t5)), CommunicationError);
  for (const DownlinkCodec codec : {DownlinkCodec::kSums, DownlinkCodec::kTernary}) {
    Leg leg(codec);
    Leg blocks(codec, {.scope = ScalerScope::kBlock, .block_elements = 64});
    EXPECT_THAT([&] { read(leg, sent_by(blocks)); },
                ThrowsMessage<CommunicationError>(HasSubstr("it is not the one of its shard")));
    Leg other(codec);
    NonfiniteReport report;
    for (int worker = 0; worker < MeanLeg::kWorkers; ++worker) other.coders[0]->local_row(worker)[0] = 0.75f;
    other.coders[0]->combine_scalers(&report, nullptr, nullptr, other.stream);
    EXPECT_THAT([&] { read(leg, sent_by(other)); },
                ThrowsMessage<CommunicationError>(HasSubstr("its scalers are not those that were agreed on")));
  }
}

TEST(MeanMessages, RefuseACodeThatNeverOccurs) {
  Leg leg(DownlinkCodec::kTernary);
  Replaced alone;
  leg.encode(leg.aggregated(), alone);
  MeanPart& part = leg.messages.parts()[0];
  part.outgoing[part.bytes - 1] = 0x80;  // sign bit of a zero
  EXPECT_THROW(leg.gather(alone), CommunicationError);
}

}  // namespace
}  // namespace terngrad::mean_messages_test
