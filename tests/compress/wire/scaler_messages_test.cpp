#include "compress/wire/scaler_messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "compress/wire/payload_rows.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "support/bits.h"
#include "support/gradients.h"

namespace terngrad::scaler_messages_test {
namespace {

using testing::bits_of;
using testing::gaussian_tensors;

const MessageContext kContext{1, 2, 3};

/// A process with one of two workers, which has measured its gradient.
struct Process {
  Layout layout;
  CodecPlan plan;
  PayloadRows rows;
  std::vector<std::unique_ptr<Coder>> coders;

  explicit Process(int worker, const std::string& codec = "ternary:scope=block,block=4096")
      : layout(make_layout()),
        plan(layout, {.codec = codec, .rules = {{"plain", "fp32"}}, .context = {2}}),
        rows(plan, worker_range(2, worker, 2), {whole_segments(layout)}, PayloadForm::kNatural),
        coders(make_coders(plan, {.layout = layout, .workers = worker_range(2, worker, 2)},
                           [this](std::size_t) -> PayloadRows& { return rows; })) {
    Stream stream;
    const testing::Tensors gradient = gaussian_tensors(layout, static_cast<std::uint64_t>(worker) + 1);
    for (const auto& coder : coders) coder->measure({&gradient.table, 1}, {}, stream);
  }
  std::span<float> blocks_of(int worker) {
    return coders[static_cast<std::size_t>(plan.group_of(0))]->local_row(worker);
  }
  void read(int worker, std::span<const std::uint8_t> message) {
    Message scratch;
    read_scalers(layout, plan, coders, worker, kContext, message, scratch);
  }
  static Layout make_layout() {
    Layout layout;
    layout.add("w", {9000});
    layout.add("empty", {0});
    layout.add("plain", {33});
    return layout;
  }
};

TEST(ScalerMessages, BringAWorkersScalersToAnotherProcess) {
  Process sender(0);
  Process receiver(1);
  Parcels parcels;
  append_scalers(sender.layout, sender.plan, sender.coders, 0, kContext, parcels);
  receiver.read(0, parcels.parcel(0));
  EXPECT_EQ(bits_of(receiver.blocks_of(0)), bits_of(sender.blocks_of(0)));
  EXPECT_EQ(receiver.blocks_of(0).size(), 3u);
  EXPECT_GT(receiver.blocks_of(0)[2], 0.0f);
}

TEST(ScalerMessages, OneScalerThatNoEncoderSendsMakesTheTensorNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Process sender(0);
    Process receiver(1);
    sender.blocks_of(0)[1] = bad;
    Parcels parcels;
    append_scalers(sender.layout, sender.plan, sender.coders, 0, kContext, parcels);
    receiver.read(0, parcels.parcel(0));
    for (const float scaler : receiver.blocks_of(0)) EXPECT_TRUE(std::isnan(scaler)) << bad;
  }
}

TEST(ScalerMessages, AreFlagsOfTensorsWhoseScalersAreNotShared) {
  for (const char* codec : {"ternary:scope=block,block=4096,sharing=none", "qsgd:block=64", "fp8", "natural",
                            "ternary:levels=asymmetric,sharing=none"}) {
    for (const bool is_finite : {true, false}) {
      SCOPED_TRACE(codec);
      Process sender(0, codec);
      Process receiver(1, codec);
      if (!is_finite) std::ranges::fill(sender.blocks_of(0), canonical_nan());
      Parcels parcels;
      append_scalers(sender.layout, sender.plan, sender.coders, 0, kContext, parcels);
      Message message;
      read_message(parcels.parcel(0), MessageKind::kScalers, kContext, sender.layout, message);
      const EncodedSlice& flag = message.records[0].encoded;
      EXPECT_EQ(flag.format, 1);
      EXPECT_EQ(bits_of(flag.scalers), (std::vector<std::uint32_t>{is_finite ? 0u : bits_of(canonical_nan())}));
      EXPECT_TRUE(message.records[1].encoded.scalers.empty());
      EXPECT_EQ(message.records[2].encoded.format, 0);  // fp32
      receiver.read(0, parcels.parcel(0));
      for (const float scaler : receiver.blocks_of(0)) {
        EXPECT_EQ(bits_of(scaler), is_finite ? 0u : bits_of(canonical_nan()));
      }
      EXPECT_EQ(num_told_scalers(sender.layout, sender.plan, 0), 1);
      EXPECT_EQ(num_told_scalers(sender.layout, sender.plan, 1), 0);
    }
  }
}

TEST(ScalerMessages, RefuseFlagsThatAreNone) {
  const std::string own = "ternary:scope=block,block=4096,sharing=none";
  Process receiver(1, own);
  const float infinity = std::numeric_limits<float>::infinity();
  const auto refusal_of = [&](std::uint8_t format, const std::vector<float>& scalers) -> std::string {
    MessageWriter writer;
    writer.begin(MessageKind::kScalers, kContext, 0, 3, max_message_bytes(3, 5, 0));
    writer.add({0, 0, 9000}, 3, format, scalers, 0);
    writer.add({1, 0, 0}, 1, 0, {}, 0);  // too small for codes
    writer.add({2, 0, 33}, 1, 0, std::vector<float>{0.0f}, 0);
    try {
      receiver.read(0, writer.finish());
    } catch (const CommunicationError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal_of(1, {0.0f}), "");
  EXPECT_EQ(refusal_of(1, {canonical_nan()}), "");
  EXPECT_NE(refusal_of(1, {1.0f}), "");
  EXPECT_NE(refusal_of(1, {-1.0f}), "");
  EXPECT_NE(refusal_of(1, {infinity}), "");
  EXPECT_NE(refusal_of(1, {}), "");
  EXPECT_NE(refusal_of(1, {0.0f, 0.0f, 0.0f}), "");
  EXPECT_NE(refusal_of(0, {0.0f}), "");
  EXPECT_NE(refusal_of(0, {1.0f, 1.0f, 1.0f}), "");  // scalers instead of flags
}

TEST(ScalerMessages, RefuseOtherListsAndOtherWorkers) {
  Process sender(0);
  Process receiver(1);
  Parcels parcels;
  append_scalers(sender.layout, sender.plan, sender.coders, 0, kContext, parcels);
  EXPECT_THROW(receiver.read(1, parcels.parcel(0)), CommunicationError);
  sender.blocks_of(0)[0] = -1;
  append_scalers(sender.layout, sender.plan, sender.coders, 0, kContext, parcels);
  EXPECT_THROW(receiver.read(0, parcels.parcel(1)), CommunicationError);
  MessageWriter writer;
  writer.begin(MessageKind::kScalers, kContext, 0, 0, max_message_bytes(0, 0, 0));
  EXPECT_THROW(receiver.read(0, writer.finish()), CommunicationError);
}

}  // namespace
}  // namespace terngrad::scaler_messages_test
