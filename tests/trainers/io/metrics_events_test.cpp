#include "trainers/io/metrics_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/trainers/event_reader.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::metrics_events_test {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;
using testing::TemporaryDirectory;

TEST(ScalarsOf, NamesNumbersByKindAndPlace) {
  const Json record = {{"step", 5}, {"kind", "test"}, {"weights", "ema"}, {"top1", 0.5}, {"bytes", {{"mean", 3}}}};
  const std::vector<NamedScalar> scalars = scalars_of(record);
  ASSERT_EQ(scalars.size(), 2u);
  EXPECT_EQ(scalars[0].tag, "test/top1");
  EXPECT_EQ(scalars[0].value, 0.5);
  EXPECT_EQ(scalars[1].tag, "test/bytes/mean");
  EXPECT_EQ(scalars[1].value, 3.0);
}

TEST(ScalarsOf, GroupsTensorsByQuantity) {
  const Json record = {
      {"step", 5},
      {"kind", "tensors"},
      {"tensors", {{"conv1/weights", {{"scaler", 0.25}, {"snr_db", std::numeric_limits<double>::infinity()}}}}}};
  const std::vector<NamedScalar> scalars = scalars_of(record);
  ASSERT_EQ(scalars.size(), 2u);
  EXPECT_EQ(scalars[0].tag, "scaler/conv1/weights");
  EXPECT_EQ(scalars[1].tag, "snr_db/conv1/weights");
  EXPECT_TRUE(std::isinf(scalars[1].value));
}

TEST(FollowMetrics, EveryRecordReachesTheEvents) {
  const TemporaryDirectory folder;
  EventFile events{Folder(folder.path())};
  MetricsWriter metrics(folder / "m.jsonl");
  follow_metrics(metrics, events);
  metrics.write({{"step", 3}, {"kind", "train"}, {"loss", 0.75}});
  metrics.write({{"step", 4}, {"kind", "test"}, {"top1", 1}});
  EXPECT_THAT(testing::seen_scalars(folder.path()),
              ElementsAre(testing::SeenScalar{3, "train/loss", 0.75f}, testing::SeenScalar{4, "test/top1", 1.0f}));
}

}  // namespace
}  // namespace terngrad::metrics_events_test
