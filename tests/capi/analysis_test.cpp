#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "compress/plan/telemetry.h"
#include "compress/plan/tensor_analysis.h"
#include "support/c_api.h"

namespace terngrad::capi_analysis_test {
namespace {

using testing::c_array;
using testing::is_ok;
using testing::is_refused;
using testing::sized;

TEST(CAnalysis, IsTheLibrarys) {
  const std::vector<float> gradient = testing::gaussian(10000, 3);
  const tg_array array = c_array(gradient);
  tg_stream* stream = nullptr;
  ASSERT_TRUE(is_ok(tg_stream_cpu(2, &stream)));
  Stream queue(Device::cpu(), 1);
  const TensorElements elements{gradient.data(), 10000, ElementType::kFloat32};

  tg_statistics_out statistics = sized<tg_statistics_out>();
  ASSERT_TRUE(is_ok(tg_statistics(&array, &statistics, stream)));
  const TensorSummary summary = summarize(elements, 0, queue)[0];
  EXPECT_EQ(statistics.count, 10000);
  EXPECT_EQ(statistics.finite, 1);
  EXPECT_EQ(statistics.mean, summary.mean);
  EXPECT_EQ(statistics.standard_deviation, summary.standard_deviation);
  EXPECT_EQ(statistics.max_abs, summary.max_abs);
  EXPECT_EQ(statistics.l1, summary.l1);
  EXPECT_EQ(statistics.l2, summary.l2);

  std::vector<std::int8_t> codes(10000);
  std::vector<std::int8_t> expected(10000);
  float s = 0;
  ASSERT_TRUE(is_ok(tg_ternarize(&array, 2.5, nullptr, 4, 9, 2, 128, codes.data(), &s, stream)));
  TernarizeKeys keys{.clip_factor = 2.5, .seed = 4, .step = 9, .worker = 2, .draw_offset = 128};
  EXPECT_EQ(ternarize_tensor(elements, keys, expected, queue), s);
  EXPECT_EQ(codes, expected);
  keys.scaler = 0.5f;
  ternarize_tensor(elements, keys, expected, queue);
  ASSERT_TRUE(is_ok(tg_ternarize(&array, 2.5, &*keys.scaler, 4, 9, 2, 128, codes.data(), nullptr, stream)));
  EXPECT_EQ(codes, expected);
  tg_stream_destroy(stream);

  std::vector<float> sent;
  for (const std::int8_t code : codes) sent.push_back(0.5f * static_cast<float>(code));
  const tg_array sent_array = c_array(sent);
  tg_telemetry_out telemetry = sized<tg_telemetry_out>();
  ASSERT_TRUE(is_ok(tg_telemetry(&array, &sent_array, 0.5f, &telemetry)));
  const TensorTelemetry found = compare_with_sent(gradient, sent, 0.5);
  EXPECT_EQ(telemetry.norm, found.norm);
  EXPECT_EQ(telemetry.max_abs, found.max_abs);
  EXPECT_EQ(telemetry.zero_fraction, found.zero_fraction);
  EXPECT_EQ(telemetry.clip_fraction, found.clip_fraction);
  EXPECT_EQ(telemetry.kept_norm, found.kept_norm);
  EXPECT_EQ(telemetry.clip_angle_degrees, found.clip_angle_degrees);
  EXPECT_EQ(telemetry.snr_db, found.snr_db);
  EXPECT_EQ(telemetry.error_norm, found.error_norm);
}

TEST(CAnalysis, RefusesByName) {
  std::vector<float> gradient(64, 1.0f);
  const std::vector<float> shorter(63, 1.0f);
  const tg_array array = c_array(gradient);
  const tg_array other = c_array(shorter);
  tg_telemetry_out telemetry = sized<tg_telemetry_out>();
  EXPECT_TRUE(is_refused(tg_telemetry(&array, &other, 0, &telemetry), "64"));
  EXPECT_TRUE(is_refused(tg_telemetry(&array, &array, -1, &telemetry), "scaler"));
  EXPECT_TRUE(is_refused(tg_telemetry(&array, &array, NAN, &telemetry), "scaler"));
  std::int8_t codes[64];
  const auto ternarize = [&](double clip_factor, std::uint64_t step, std::int64_t draw_offset, std::int8_t* out) {
    return tg_ternarize(&array, clip_factor, nullptr, 1, step, 0, draw_offset, out, nullptr, nullptr);
  };
  EXPECT_TRUE(is_ok(ternarize(0, 0, 0, codes)));
  EXPECT_TRUE(is_refused(ternarize(0, 0, 0, nullptr), "codes is NULL"));
  EXPECT_TRUE(is_refused(ternarize(-1, 0, 0, codes), "clip_factor"));
  EXPECT_TRUE(is_refused(ternarize(0, std::uint64_t{1} << 40, 0, codes), "step"));
  EXPECT_TRUE(is_refused(ternarize(0, 0, 3, codes), "draw_offset"));
  gradient[5] = NAN;
  EXPECT_TRUE(is_refused(ternarize(0, 0, 0, codes), "NaN"));
  tg_statistics_out statistics = sized<tg_statistics_out>();
  EXPECT_TRUE(is_ok(tg_statistics(&array, &statistics, nullptr)));
  EXPECT_EQ(statistics.finite, 0);
  EXPECT_TRUE(is_ok(tg_telemetry(&array, &array, 0, &telemetry)));
  EXPECT_TRUE(std::isnan(telemetry.snr_db));
}

}  // namespace
}  // namespace terngrad::capi_analysis_test
