#include "compress/wire/scaler_messages.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "compress/wire/payload_rows.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"

namespace terngrad::scaler_messages_test {
namespace {

using testing::bits_of;
using testing::gaussian_tensors;

const MessageContext kContext{1, 2, 3};

/// A process with one of two workers, whose gradient it has measured.
struct Process {
  Layout layout;
  CodecPlan plan;
  PayloadRows rows;
  std::vector<std::unique_ptr<Coder>> coders;

  explicit Process(int worker)
      : layout(make_layout()),
        plan(layout, {.codec = "ternary:scope=block,block=4096", .rules = {{"plain", "fp32"}}, .context = {2}}),
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
