#include "compress/plan/tensor_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "compress/wire/gradient_message.h"
#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/errors.h"
#include "support/gradients.h"

namespace terngrad::tensor_analysis_test {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TensorElements elements(const std::vector<float>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), ElementType::kFloat32};
}

TEST(TensorAnalysis, SummarizesATensorAndItsBlocks) {
  const std::vector<float> values = {3, -4, 0, 0, -12};
  Stream stream;
  const std::vector<TensorSummary> all = summarize(elements(values), 0, stream);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].count, 5);
  EXPECT_EQ(all[0].mean, -13.0 / 5);
  EXPECT_DOUBLE_EQ(all[0].standard_deviation, std::sqrt(169.0 / 5 - 13.0 * 13.0 / 25));
  EXPECT_EQ(all[0].max_abs, 12);
  EXPECT_EQ(all[0].l1, 19);
  EXPECT_EQ(all[0].l2, 13);
  EXPECT_TRUE(all[0].finite);
  const std::vector<TensorSummary> blocks = summarize(elements(values), 2, stream);
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[0].l2, 5);
  EXPECT_EQ(blocks[1].max_abs, 0);
  EXPECT_EQ(blocks[2].count, 1);
  EXPECT_EQ(blocks[2].l1, 12);
  EXPECT_THROW(summarize(elements(values), -1, stream), InvalidArgument);
}

TEST(TensorAnalysis, SummarizesWhatIsEmptyOrNotFinite) {
  Stream stream;
  for (const std::int64_t block : {0, 7}) {
    const std::vector<TensorSummary> none = summarize({}, block, stream);
    ASSERT_EQ(none.size(), 1u);
    EXPECT_EQ(none[0].count, 0);
    EXPECT_EQ(none[0].l2, 0);
    EXPECT_TRUE(none[0].finite);
  }
  const TensorSummary broken = summarize(elements({1, std::numeric_limits<float>::infinity()}), 0, stream)[0];
  EXPECT_FALSE(broken.finite);
  EXPECT_TRUE(std::isnan(broken.standard_deviation));
  EXPECT_TRUE(std::isinf(broken.max_abs));
}

TEST(TensorAnalysis, TernarizesToTheCodesOfAMessage) {
  Layout layout;
  layout.add("before", {100});
  layout.add("tensor", {9000});
  const CodecPlan plan(layout, {.codec = "ternary:clip_factor=2.5", .rules = {}, .context = {1}});
  const testing::Tensors gradient = testing::gaussian_tensors(layout, 3);
  Stream stream(Device::cpu(), 2);
  const MessageContext context{.run_id = 0, .fingerprint = plan.fingerprint(), .step = 9};
  WorkerEncoder encoder(layout, plan, 0, 1, 4);
  encoder.measure(gradient.table, context.step, stream);
  Message message;
  read_gradient_message(encoder.gradient_message(gradient.table, context, stream), layout, plan, context, message);
  const testing::Tensors sent = testing::blank_tensors(layout);
  decode_gradient(message, plan, sent.table);

  std::vector<std::int8_t> codes(9000);
  const TernarizeKeys keys{
      .clip_factor = 2.5, .seed = 4, .step = context.step, .draw_offset = layout.segment(1).draw_offset};
  const float s = ternarize_tensor(elements(gradient.values[1]), keys, codes, stream);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    ASSERT_EQ(s * static_cast<float>(codes[i]), sent.values[1][i]) << i;
  }
  const TernarizeKeys given{.scaler = s, .seed = 4, .step = context.step, .draw_offset = layout.segment(1).draw_offset};
  std::vector<std::int8_t> again(9000);
  EXPECT_EQ(ternarize_tensor(elements(gradient.values[1]), given, again, stream), s);
  EXPECT_EQ(codes, again);
}

TEST(TensorAnalysis, RefusesToTernarizeByName) {
  const std::vector<float> values = {1, -2, 0};
  Stream stream;
  const auto refusal = [&](const std::vector<float>& tensor, const TernarizeKeys& keys, std::size_t room = 3) {
    std::vector<std::int8_t> codes(room, 7);
    try {
      ternarize_tensor(elements(tensor), keys, codes, stream);
    } catch (const InvalidArgument& error) {
      EXPECT_THAT(codes, Each(7));
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(values, {}), "");
  EXPECT_THAT(refusal(values, {}, 2), HasSubstr("room for 2 codes"));
  EXPECT_THAT(refusal(values, {.clip_factor = -1}), HasSubstr("clip_factor"));
  EXPECT_THAT(refusal(values, {.clip_factor = NAN}), HasSubstr("clip_factor"));
  EXPECT_THAT(refusal(values, {.scaler = -1.0f}), HasSubstr("scaler"));
  EXPECT_THAT(refusal(values, {.scaler = NAN}), HasSubstr("scaler"));
  EXPECT_THAT(refusal(values, {.step = std::uint64_t{1} << 40}), HasSubstr("step"));
  EXPECT_THAT(refusal(values, {.draw_offset = 32}), HasSubstr("draw_offset"));
  EXPECT_THAT(refusal(values, {.draw_offset = -64}), HasSubstr("draw_offset"));
  EXPECT_THAT(refusal({1, NAN, 0}, {}), HasSubstr("NaN"));
  EXPECT_THAT(refusal({1, 0x1p127f, 0}, {}), HasSubstr("largest element"));
}

}  // namespace
}  // namespace terngrad::tensor_analysis_test
