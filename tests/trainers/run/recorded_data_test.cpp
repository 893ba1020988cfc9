#include "trainers/run/recorded_data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "kernels/runtime/errors.h"
#include "tests/trainers/small_training.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::recorded_data_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

std::optional<RecordedData> of_config(const std::string& text) {
  const TemporaryDirectory folder;
  folder.write("config.json", text);
  return recorded_data(folder.path());
}

TEST(RecordedData, IsWhatTheRunWasGiven) {
  const auto data = of_config(R"({"options": {"dataset": "npy", "data_dir": "tiny", "data_shards": true}})");
  ASSERT_TRUE(data.has_value());
  EXPECT_EQ(data->dataset, "npy");
  EXPECT_EQ(data->data_dir, "tiny");
  EXPECT_TRUE(data->data_shards);
  const auto unsharded = of_config(R"({"options": {"dataset": "npy", "data_dir": ""}})");
  ASSERT_TRUE(unsharded.has_value());
  EXPECT_EQ(unsharded->data_dir, "");
  EXPECT_FALSE(unsharded->data_shards);
}

TEST(RecordedData, IsNothingWhereNothingSaysIt) {
  const TemporaryDirectory folder;
  EXPECT_FALSE(recorded_data(folder.path()).has_value());
  for (const char* text : {"[]", "{}", R"({"options": 3})", R"({"options": {"dataset": "npy"}})",
                           R"({"options": {"dataset": 7, "data_dir": "tiny"}})"}) {
    EXPECT_FALSE(of_config(text).has_value()) << text;
  }
}

TEST(RecordedData, DamageIsRefused) {
  EXPECT_THAT(message_of<DataError>([&] { of_config("{\"options\": "); }),
              AllOf(HasSubstr("config.json' is damaged"), HasSubstr("not JSON")));
}

}  // namespace
}  // namespace terngrad::recorded_data_test
