#include "compress/exchange/bucketed_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "support/exchanges.h"

namespace terngrad::bucketed_layout_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::mixed_layout;

CodecPlanOptions codecs() { return testing::options_of(ExchangeAlgorithm::kAuto).codecs; }

TEST(BucketedLayout, ASingleBucketIsTheVeryLayoutAndPlan) {
  const Layout layout = mixed_layout();
  const BucketedLayout one(layout, codecs(), 3, {{6, 5, 4, 3, 2, 1, 0}});
  EXPECT_THAT(one.buckets(), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6)));
  EXPECT_EQ(one.layout_of(0).fingerprint(), layout.fingerprint());
  EXPECT_EQ(one.plan_of(0).fingerprint(), one.plan().fingerprint());
}

TEST(BucketedLayout, TensorsKeepTheirCodecsDrawsAndMemory) {
  const Layout layout = mixed_layout();
  const Buckets buckets = {{5, 6}, {2, 3, 4}, {0, 1}};
  const BucketedLayout split(layout, codecs(), 3, buckets);
  testing::Tensors tensors = testing::gaussian_tensors(layout, 1);
  const std::array<TensorTable, 2> tables = {tensors.table, tensors.table};
  for (int segment = 0; segment < layout.num_segments(); ++segment) {
    const BucketedLayout::Place place = split.place_of(segment);
    EXPECT_EQ(buckets[place.bucket][static_cast<std::size_t>(place.segment)], segment);
    const Segment& there = split.layout_of(place.bucket).segment(place.segment);
    EXPECT_EQ(there.name, layout.segment(segment).name);
    EXPECT_EQ(there.draw_offset, layout.segment(segment).draw_offset);
    EXPECT_EQ(&split.plan_of(place.bucket).codec_of(place.segment), &split.plan().codec_of(segment));
    EXPECT_EQ(split.select(place.bucket, tensors.table).data(place.segment), tensors.table.data(segment));
    EXPECT_EQ(split.select(place.bucket, tables).at(1).data(place.segment), tensors.table.data(segment));
  }
  EXPECT_THROW(split.place_of(-1), InvalidArgument);
  EXPECT_THROW(split.place_of(7), InvalidArgument);
}

TEST(BucketedLayout, BucketsWithoutSumsAreGathered) {
  // "plain" and "half" are sent as floats.
  const BucketedLayout split(mixed_layout(), codecs(), 3, {{5, 6}, {0, 1, 2, 3, 4}});
  EXPECT_EQ(split.algorithm_of(0, ExchangeAlgorithm::kIntegerSum), ExchangeAlgorithm::kAllGather);
  EXPECT_EQ(split.algorithm_of(1, ExchangeAlgorithm::kIntegerSum), ExchangeAlgorithm::kIntegerSum);
  EXPECT_EQ(split.algorithm_of(0, ExchangeAlgorithm::kScatterReduce), ExchangeAlgorithm::kScatterReduce);
  // If no tensor can be summed, the caller must refuse integer sums.
  CodecPlanOptions numbers;
  numbers.codec = "fp32";
  const BucketedLayout none(mixed_layout(), numbers, 3, {{5, 6}, {0, 1, 2, 3, 4}});
  EXPECT_EQ(none.algorithm_of(0, ExchangeAlgorithm::kIntegerSum), ExchangeAlgorithm::kIntegerSum);
}

TEST(BucketedLayout, RefusesBucketsThatDoNotGoTogether) {
  EXPECT_THROW(BucketedLayout(mixed_layout(), codecs(), 2, {{0, 1}}), InvalidArgument);
  CodecPlanOptions of_model = codecs();
  of_model.codec = "ternary:scope=model";
  EXPECT_NO_THROW(BucketedLayout(mixed_layout(), of_model, 2, whole_bucket(mixed_layout())));
  try {
    const BucketedLayout split(mixed_layout(), of_model, 2, {{5, 6}, {0, 1, 2, 3, 4}});
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), HasSubstr("the codec ternary needs all of its tensors at once (scaler_scope model)"));
  }
}

}  // namespace
}  // namespace terngrad::bucketed_layout_test
