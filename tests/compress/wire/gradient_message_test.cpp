#include "compress/wire/gradient_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"

namespace terngrad::gradient_message_test {
namespace {

using ::testing::HasSubstr;
using testing::mixed_layout;
using testing::Tensors;

const MessageContext kContext{1, 2, 3};

CodecPlan plan_of(const Layout& layout, const std::string& codec) {
  return {layout, {.codec = codec, .rules = {{"plain", "fp32"}, {"half", "bf16"}}}};
}

/// One worker's gradient message, 8-byte aligned.
struct Written {
  Layout layout = mixed_layout();
  CodecPlan plan;
  Tensors gradient = testing::gaussian_tensors(layout, 3);
  WorkerEncoder encoder;
  std::span<const std::uint8_t> bytes;

  explicit Written(const std::string& codec) : plan(plan_of(layout, codec)), encoder(layout, plan, 0, 1, 5) {
    Stream stream;
    encoder.measure(gradient.table, kContext.step, stream);
    bytes = encoder.gradient_message(gradient.table, kContext, stream);
  }
  std::string refusal(const Layout& other_layout, const CodecPlan& other_plan, const MessageContext& context) const {
    Message message;
    try {
      read_gradient_message(bytes, other_layout, other_plan, context, message);
    } catch (const CommunicationError& error) {
      return error.what();
    }
    return "";
  }
};

TEST(GradientMessage, IsDecodedToWhatEveryTensorWasSentAs) {
  const Written written("fp32");
  Message message;
  read_gradient_message(written.bytes, written.layout, written.plan, kContext, message);
  const Tensors decoded = testing::blank_tensors(written.layout);
  decode_gradient(message, written.plan, decoded.table);
  for (std::size_t exact = 0; exact < 6; ++exact) EXPECT_EQ(decoded.values[exact], written.gradient.values[exact]);
  EXPECT_NE(decoded.values[6], written.gradient.values[6]);  // bf16
}

TEST(GradientMessage, OfAnotherPlanLayoutOrStepIsRefused) {
  const Written written("ternary");
  EXPECT_EQ(written.refusal(written.layout, written.plan, kContext), "");
  EXPECT_THAT(written.refusal(written.layout, plan_of(written.layout, "qsgd"), kContext),
              HasSubstr("slice 0 of worker 0's gradient is not the whole tensor 'conv/weights' in codec qsgd"));
  EXPECT_THAT(written.refusal(written.layout, plan_of(written.layout, "ternary:format=t5"), kContext),
              HasSubstr("'conv/weights'"));
  Layout longer = mixed_layout();
  longer.add("more", {5});
  EXPECT_THAT(written.refusal(longer, plan_of(longer, "ternary"), kContext), HasSubstr("has 7 slices, expected 8"));
  EXPECT_THAT(written.refusal(written.layout, written.plan, {1, 2, 4}), HasSubstr("step"));
}

TEST(GradientMessage, OfAPartOfATensorIsRefused) {
  Layout layout;
  layout.add("whole", {20000});
  const CodecPlan plan(layout, CodecPlanOptions{.codec = "fp32", .rules = {}});
  MessageWriter writer;
  writer.begin(MessageKind::kGradient, kContext, 0, 1, max_message_bytes(1, 1, 4 * 4096));
  const float flag[] = {0};
  std::uint8_t* payload = writer.add({0, 0, 4096}, plan.codec_of(0).wire_id(), 0, flag, 4 * 4096);
  std::fill_n(payload, 4 * 4096, std::uint8_t{0});
  Message message;
  EXPECT_THROW(read_gradient_message(writer.finish(), layout, plan, kContext, message), CommunicationError);
}

}  // namespace
}  // namespace terngrad::gradient_message_test
