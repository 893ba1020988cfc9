// Every codec with every algorithm and downlink: either runs, or is refused with a reason. See also
// tests/trainers/options/codec_classes_test.cpp (strategies).
#include "support/codec_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/vendor_codecs.h"
#include "kernels/runtime/errors.h"
#include "support/exchanges.h"

namespace terngrad::codec_classes_test {
namespace {

using testing::Cells;
using testing::ClassedSpec;
using testing::CodecClass;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kClassedSpecs;
using testing::Tensors;

struct Row {
  ExchangeAlgorithm algorithm;
  DownlinkCodec downlink;
  Cells cells;
};

constexpr const char* kRuns = "";
constexpr const char* kNoSums = "[exchange] algorithm integer_sum: needs codes of some tensor that add up as integers";
constexpr const char* kNoCodes = ": needs codes of some tensor that add up as integers";
constexpr const char* kSumsOfOwn = "[exchange] downlink_codec sums: needs scalers that all workers share";
constexpr const char* kNoVoteSums =
    "[exchange] downlink_codec ternary: draws from sums of codes, which the votes of codec sign are not";
constexpr const char* kTernaryOfOwn = "[exchange] downlink_codec ternary: needs scalers that all workers share";

constexpr const char* kNoMean = "[exchange] downlink_codec sparse: has no effect with ";
constexpr const char* kNotSparse = "[exchange] downlink_codec sparse: needs a sparse codec of some tensor";

// One codec for all tensors.
constexpr Row kRows[] = {
    {ExchangeAlgorithm::kAllGather, DownlinkCodec::kFloat32, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
    {ExchangeAlgorithm::kAllGather, DownlinkCodec::kBfloat16, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
    {ExchangeAlgorithm::kAllGather,
     DownlinkCodec::kSums,
     {{kNoCodes}, {kSumsOfOwn}, {kRuns}, {kRuns}, {kNoCodes}, {kNoCodes}}},
    {ExchangeAlgorithm::kAllGather,
     DownlinkCodec::kTernary,
     {{kNoCodes}, {kTernaryOfOwn}, {kRuns}, {kNoVoteSums}, {kNoCodes}, {kNoCodes}}},
    {ExchangeAlgorithm::kScatterReduce,
     DownlinkCodec::kFloat32,
     {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
    {ExchangeAlgorithm::kScatterReduce,
     DownlinkCodec::kBfloat16,
     {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
    {ExchangeAlgorithm::kScatterReduce,
     DownlinkCodec::kSums,
     {{kNoCodes}, {kSumsOfOwn}, {kRuns}, {kRuns}, {kNoCodes}, {kNoCodes}}},
    {ExchangeAlgorithm::kScatterReduce,
     DownlinkCodec::kTernary,
     {{kNoCodes}, {kTernaryOfOwn}, {kRuns}, {kNoVoteSums}, {kNoCodes}, {kNoCodes}}},
    {ExchangeAlgorithm::kIntegerSum,
     DownlinkCodec::kFloat32,
     {{kNoSums}, {kNoSums}, {kRuns}, {kRuns}, {kNoSums}, {kNoSums}}},
    {ExchangeAlgorithm::kIntegerSum,
     DownlinkCodec::kBfloat16,
     {{kNoSums}, {kNoSums}, {kRuns}, {kRuns}, {kNoSums}, {kNoSums}}},
    {ExchangeAlgorithm::kIntegerSum,
     DownlinkCodec::kSums,
     {{kNoSums}, {kNoSums}, {kRuns}, {kRuns}, {kNoSums}, {kNoSums}}},
    {ExchangeAlgorithm::kIntegerSum,
     DownlinkCodec::kTernary,
     {{kNoSums}, {kNoSums}, {kRuns}, {kNoVoteSums}, {kNoSums}, {kNoSums}}},
    {ExchangeAlgorithm::kAllGather,
     DownlinkCodec::kSparse,
     {{kNotSparse}, {kNotSparse}, {kNotSparse}, {kNotSparse}, {kNoMean}, {kNotSparse}}},
    {ExchangeAlgorithm::kIntegerSum,
     DownlinkCodec::kSparse,
     {{kNotSparse}, {kNotSparse}, {kNotSparse}, {kNotSparse}, {kNoMean}, {kNotSparse}}},
    {ExchangeAlgorithm::kScatterReduce,
     DownlinkCodec::kSparse,
     {{kNotSparse}, {kNotSparse}, {kNotSparse}, {kNotSparse}, {kRuns}, {kNotSparse}}},
    {ExchangeAlgorithm::kAuto,
     DownlinkCodec::kSparse,
     {{kNotSparse}, {kNotSparse}, {kNotSparse}, {kNotSparse}, {kRuns}, {kNotSparse}}},
    {ExchangeAlgorithm::kAuto, DownlinkCodec::kFloat32, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
    {ExchangeAlgorithm::kAuto, DownlinkCodec::kBfloat16, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
    {ExchangeAlgorithm::kAuto,
     DownlinkCodec::kSums,
     {{kNoCodes}, {kSumsOfOwn}, {kRuns}, {kRuns}, {kNoCodes}, {kNoCodes}}},
    {ExchangeAlgorithm::kAuto,
     DownlinkCodec::kTernary,
     {{kNoCodes}, {kTernaryOfOwn}, {kRuns}, {kNoVoteSums}, {kNoCodes}, {kNoCodes}}},
};

// As kRows, with one more ternary tensor, which lanes and sums apply to.
constexpr Row kRowsBesideTernary[] = {
    {ExchangeAlgorithm::kIntegerSum, DownlinkCodec::kFloat32, {{kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
    {ExchangeAlgorithm::kIntegerSum, DownlinkCodec::kSums, {{kRuns}, {kSumsOfOwn}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
    {ExchangeAlgorithm::kScatterReduce,
     DownlinkCodec::kSums,
     {{kRuns}, {kSumsOfOwn}, {kRuns}, {kRuns}, {kRuns}, {kRuns}}},
};

/// Mean of five workers; empty, with the message in `refusal`, if the exchange is refused.
std::vector<std::vector<float>> mean_of(const ClassedSpec& classed, const Row& row, bool beside_ternary,
                                        std::string& refusal) {
  const Layout layout = testing::mixed_layout();
  const std::vector<Tensors> workers = testing::worker_gradients(layout, 5);
  CompressedAllReduceOptions options = testing::options_of(row.algorithm, row.downlink);
  options.codecs.codec = classed.spec;
  options.codecs.rules = {};
  if (beside_ternary) options.codecs.rules = {{"conv/weights", "ternary"}};
  try {
    CompressedAllReduce exchange(layout, make_worker_group(5, make_self_communicator()), options);
    Tensors mean = testing::blank_tensors(layout);
    exchange.exchange(testing::tables(workers, 0, 5), mean.table, 3);
    // The mean may overwrite one of the gradients.
    const std::vector<Tensors> again = testing::worker_gradients(layout, 5);
    CompressedAllReduce(layout, make_worker_group(5, make_self_communicator()), options)
        .exchange(testing::tables(again, 0, 5), again[2].table, 3);
    EXPECT_TRUE(testing::same_bits(mean.values, again[2])) << "in place";
    return mean.values;
  } catch (const InvalidArgument& error) {
    refusal = error.what();
    return {};
  }
}

void expect_rows(std::span<const Row> rows, bool beside_ternary) {
  for (const ClassedSpec& classed : kClassedSpecs) {
    std::vector<std::vector<float>> of_fp32;  // this mean does not depend on the algorithm
    for (const Row& row : rows) {
      SCOPED_TRACE(std::string(classed.spec) + " " + word_of(row.algorithm) + " " + word_of(row.downlink));
      const testing::Cell& cell = row.cells.of(classed.column);
      std::string refusal;
      const std::vector<std::vector<float>> mean = mean_of(classed, row, beside_ternary, refusal);
      if (!cell.runs()) {
        EXPECT_THAT(refusal, HasSubstr(cell.refusal));
        EXPECT_THAT(mean, IsEmpty());
        continue;
      }
      ASSERT_EQ(refusal, "");
      double sum = 0;
      for (const std::vector<float>& tensor : mean) {
        for (const float value : tensor) {
          ASSERT_TRUE(std::isfinite(value));
          sum += std::fabs(static_cast<double>(value));
        }
      }
      EXPECT_GT(sum, 0);
      // The sparse downlink is exact.
      if (row.downlink != DownlinkCodec::kFloat32 && row.downlink != DownlinkCodec::kSparse) continue;
      if (of_fp32.empty()) of_fp32 = mean;
      EXPECT_TRUE(mean == of_fp32);
    }
  }
}

TEST(CodecClasses, HaveEveryCodecOfTheRegistry) { EXPECT_THAT(testing::unclassed_codecs(), IsEmpty()); }

TEST(CodecClasses, AreThoseOfTheTraits) {
  for (const ClassedSpec& classed : kClassedSpecs) {
    const auto codec = make_codec(classed.spec, {.num_workers = 5});
    EXPECT_EQ(codec->traits().sums_as_float, classed.column == CodecClass::kFloats) << classed.spec;
    const bool votes = classed.column == CodecClass::kVotes;
    EXPECT_EQ(codec->traits().votes, votes) << classed.spec;
    EXPECT_EQ(codec->traits().summable, votes || classed.column == CodecClass::kSharedScalers) << classed.spec;
    EXPECT_EQ(codec->low_rank().has_value(), classed.column == CodecClass::kLowRank) << classed.spec;
    EXPECT_EQ(codec->traits().is_sparse, classed.column == CodecClass::kSparse) << classed.spec;
    EXPECT_EQ(codec->sharing() == ScalerSharing::kNone, classed.column == CodecClass::kOwnScalers) << classed.spec;
  }
}

TEST(CodecClasses, RunOrAreRefusedByEveryAlgorithmAndDownlink) { expect_rows(kRows, /*beside_ternary=*/false); }

TEST(CodecClasses, RunOrAreRefusedBesideTernaryTensors) { expect_rows(kRowsBesideTernary, /*beside_ternary=*/true); }

TEST(CodecClasses, OnlyFloatsAreForTheVendorsAllReduce) {
  for (const ClassedSpec& classed : kClassedSpecs) {
    const std::string name = testing::codec_of(classed);
    if (classed.column == CodecClass::kFloats) {
      EXPECT_NO_THROW(vendor_element_type(name));
    } else {
      EXPECT_THROW(vendor_element_type(name), InvalidArgument) << name;
    }
  }
}

}  // namespace
}  // namespace terngrad::codec_classes_test
