#include "trainers/inspect/codec_inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compress/plan/codec_presets.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "tests/trainers/gradient_files.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::codec_inspection_test {
namespace {

using testing::gaussian;
using ::testing::HasSubstr;

constexpr std::size_t kCount = 4096;

/// A file with one tensor per worker.
GradientFile one_tensor(const std::vector<std::vector<float>>& workers) {
  GradientFile file{.source = "test", .layout = {}, .workers = {}};
  file.layout.add("tensor", {static_cast<std::int64_t>(workers[0].size())});
  for (const std::vector<float>& values : workers) {
    file.workers.push_back(zeros<float>(file.layout.flat_elements()));
    std::ranges::copy(values, file.workers.back().span().begin());
  }
  return file;
}

InspectionResult inspect(const std::string& spec, const std::vector<GradientFile>& steps,
                         const std::string& memory = "auto") {
  CodecInspection inspection(inspected_codec(spec, memory), steps[0].layout, static_cast<int>(steps[0].workers.size()),
                             1);
  for (std::uint64_t step = 0; step < steps.size(); ++step) inspection.add(steps[step], step);
  return inspection.result();
}

double sum_of(const std::vector<float>& values, double (*of)(double)) {
  double sum = 0;
  for (const float value : values) sum += of(static_cast<double>(value));
  return sum;
}
double magnitude(double value) { return std::fabs(value); }
double square(double value) { return value * value; }

std::vector<GradientFile> one_step(const std::vector<std::vector<float>>& workers) {
  std::vector<GradientFile> steps;
  steps.push_back(one_tensor(workers));
  return steps;
}

TEST(CodecInspection, LosesNothingWithFp32) {
  const InspectionResult result = inspect("fp32", one_step({gaussian(kCount)}));
  EXPECT_EQ(result.codec.memory, "none");
  EXPECT_EQ(result.all.code_bits, 32);
  EXPECT_NEAR(result.all.cosine, 1, 1e-12);
  EXPECT_EQ(result.all.vnmse, 0);
  EXPECT_EQ(result.all.kept_norm, 1);
  EXPECT_EQ(result.all.max_error, 0);
  EXPECT_FALSE(result.all.mean_vnmse);
  EXPECT_FALSE(result.all.residual_norm);
  EXPECT_GT(result.encode_bytes_per_second, 0);
  EXPECT_GT(result.decode_bytes_per_second, 0);
}

TEST(CodecInspection, SignHasItsClosedForms) {
  const std::vector<float> g = gaussian(kCount);
  const double a = sum_of(g, magnitude), s2 = sum_of(g, square);
  const double explained = a * a / (kCount * s2);
  const CodecDistortion found = inspect("sign", one_step({g})).all;
  EXPECT_NEAR(found.cosine, std::sqrt(explained), 1e-6);
  EXPECT_NEAR(found.vnmse, 1 - explained, 1e-6);
  EXPECT_NEAR(found.kept_norm, std::sqrt(explained), 1e-6);
  EXPECT_EQ(found.zero_fraction, 0);
  const auto largest = std::ranges::max(g, {}, [](float value) { return std::fabs(value); });
  EXPECT_NEAR(found.max_error, 1 - a / kCount / std::fabs(largest), 1e-6);
  EXPECT_EQ(found.code_bits, 1);
  // Header, record, scaler padded to 8 bytes, bits.
  EXPECT_EQ(found.message_bits, 8.0 * (64 + 48 + 8 + kCount / 8) / kCount);
}

TEST(CodecInspection, ATensorHasItsPartOfTheMessage) {
  std::vector<GradientFile> steps;
  steps.push_back({.source = "test", .layout = {}, .workers = {}});
  steps[0].layout.add("a", {64});
  steps[0].layout.add("none", {0, 3});
  steps[0].layout.add("b", {2, 64});
  steps[0].workers.push_back(zeros<float>(steps[0].layout.flat_elements()));
  std::ranges::fill(steps[0].workers[0].span(), 1.0f);
  std::ranges::fill(steps[0].workers[0].span().first(64), 0.0f);
  const InspectionResult result = inspect("ternary", steps);
  ASSERT_EQ(result.tensors.size(), 3u);
  EXPECT_EQ(result.tensors[0].message_bits, 8.0 * (48 + 8 + 16) / 64);
  EXPECT_EQ(result.tensors[2].message_bits, 8.0 * (48 + 8 + 32) / 128);
  // For tensors of zeros some measures are undefined, for empty tensors all.
  EXPECT_EQ(result.tensors[0].zero_fraction, 1);
  EXPECT_TRUE(std::isnan(result.tensors[0].cosine));
  EXPECT_TRUE(std::isnan(result.tensors[0].vnmse));
  EXPECT_TRUE(std::isnan(result.tensors[1].zero_fraction));
  EXPECT_EQ(result.tensors[2].cosine, 1);
  EXPECT_EQ(result.all.zero_fraction, 64.0 / 192);
}

TEST(CodecInspection, ErrorFeedbackRunsThroughTheSteps) {
  std::vector<GradientFile> steps;
  std::vector<double> expected;
  std::vector<double> residual(kCount);
  for (const unsigned seed : {1u, 2u, 3u}) {
    const std::vector<float> g = gaussian(kCount, seed);
    steps.push_back(one_tensor({g}));
    double scale = 0, left = 0;
    for (std::size_t i = 0; i < kCount; ++i) scale += std::fabs(residual[i] += static_cast<double>(g[i])) / kCount;
    for (double& e : residual) left += square(e -= e < 0 ? -scale : scale);
    expected.push_back(std::sqrt(left / sum_of(g, square)));
  }
  const InspectionResult result = inspect("efsignsgd", steps);
  EXPECT_EQ(result.codec.memory, "ef:decay=1");
  EXPECT_EQ(result.kept_bytes, 4);
  ASSERT_EQ(result.residual_norms.size(), 3u);
  for (std::size_t step = 0; step < 3; ++step) EXPECT_NEAR(result.residual_norms[step], expected[step], 1e-4);
  EXPECT_EQ(result.all.residual_norm, result.residual_norms[2]);
  // The message is compared with the encoded (compensated) gradient: without memory the residual would not grow.
  EXPECT_GT(expected[2], expected[0]);
  EXPECT_FALSE(inspect("efsignsgd", steps, "none").all.residual_norm);
}

TEST(CodecInspection, TheMeanOfUnbiasedWorkersIsCloser) {
  const std::vector<float> g = gaussian(kCount);
  const CodecDistortion found = inspect("qsgd", one_step({g, g, g, g})).all;
  ASSERT_TRUE(found.mean_vnmse);
  EXPECT_NEAR(*found.mean_vnmse, found.vnmse / 4, 0.03 * found.vnmse);
  // Exact up to the rounding of sums.
  EXPECT_LT(inspect("fp32", one_step({g, gaussian(kCount, 2), g})).all.mean_vnmse, 1e-13);
}

TEST(CodecInspection, WorkersShareScalers) {
  std::vector<float> g = gaussian(kCount);
  std::vector<float> larger = g;
  for (float& value : larger) value *= 16;
  // The smaller gradient uses the larger one's scaler, so most of it is sent as 0.
  const double together = inspect("ternary:clip_factor=2.5", one_step({g, larger})).all.zero_fraction;
  const double alone = inspect("ternary:clip_factor=2.5", one_step({g})).all.zero_fraction;
  EXPECT_NEAR(together, (alone + 1 - (1 - alone) / 16) / 2, 0.02);
}

// The second message holds the other half of a gradient that stays.
TEST(CodecInspection, SaysWhatAnEstimateLacks) {
  std::vector<GradientFile> steps;
  for (int step = 0; step < 2; ++step) steps.push_back(one_tensor({gaussian(kCount)}));
  const InspectionResult result = inspect("topk:density=0.5", steps, "ef21");
  ASSERT_EQ(result.residual_norms.size(), 2u);
  EXPECT_GT(result.residual_norms[0], 0.1);
  EXPECT_LT(result.residual_norms[0], std::sqrt(0.5));
  EXPECT_LT(result.residual_norms[1], 1e-6);
}

TEST(CodecInspection, EveryCodecAndPresetRuns) {
  std::vector<std::string> specs = codec_names();
  for (const CodecPreset& preset : codec_presets()) specs.push_back(preset.name);
  std::vector<GradientFile> steps;
  for (const unsigned seed : {1u, 2u})
    steps.push_back(one_tensor({gaussian(kCount, seed), gaussian(kCount, seed + 9)}));
  for (const std::string& spec : specs) {
    SCOPED_TRACE(spec);
    const InspectionResult result = inspect(spec, steps);
    EXPECT_GT(result.all.code_bits, 0);
    EXPECT_GT(result.all.message_bits, result.all.code_bits);
    EXPECT_GT(result.all.cosine, 0);
    EXPECT_EQ(result.all.residual_norm.has_value(), result.codec.memory != "none");
  }
}

TEST(CodecInspection, IsTheSameAgain) {
  const std::vector<GradientFile> steps = one_step({gaussian(kCount)});
  EXPECT_EQ(inspect("ternary", steps).all.vnmse, inspect("ternary", steps).all.vnmse);
}

TEST(CodecInspection, RefusesWhatCannotBe) {
  EXPECT_THROW(inspected_codec("nothing", "auto"), InvalidArgument);
  EXPECT_THROW(inspected_codec("qsgd", "nothing"), InvalidArgument);
  EXPECT_THROW(inspect("sign:reduce=vote", one_step({gaussian(kCount)}), "ef"), InvalidArgument);
  const std::string message = testing::message_of<DataError>([&] { inspect("qsgd", one_step({{1, 2}, {3, 3e38f}})); });
  EXPECT_THAT(message,
              ::testing::AllOf(HasSubstr("'test'"), HasSubstr("'tensor' of worker 1"), HasSubstr("too large")));
}

}  // namespace
}  // namespace terngrad::codec_inspection_test
