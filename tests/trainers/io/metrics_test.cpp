#include "trainers/io/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::metrics_test {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;
using testing::message_of;
using testing::TemporaryDirectory;

TEST(Metrics, WritesOneObjectPerLineInTheOrderGiven) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  writer.write({{"step", 0}, {"loss", 2.5}, {"accuracy", 0.1}});
  writer.write({{"step", 1}, {"note", "a\nb"}});
  EXPECT_EQ(read_file_text(folder / "m.jsonl"),
            "{\"step\":0,\"loss\":2.5,\"accuracy\":0.1}\n{\"step\":1,\"note\":\"a\\nb\"}\n");
}

TEST(Metrics, DoublesRoundTrip) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  for (const double value : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, -0.0, 123456789.123456789}) {
    writer.write({{"step", 0}, {"value", value}});
    const std::string text = read_file_text(folder / "m.jsonl");
    const std::size_t begin = text.rfind('\n', text.size() - 2) + 1;
    EXPECT_EQ(Json::parse(text.substr(begin == std::string::npos ? 0 : begin))["value"].get<double>(), value);
  }
}

TEST(Metrics, NanAndInfinityBecomeNull) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  writer.write(
      {{"step", 0}, {"a", std::numeric_limits<double>::quiet_NaN()}, {"b", -std::numeric_limits<double>::infinity()}});
  EXPECT_EQ(read_file_text(folder / "m.jsonl"), "{\"step\":0,\"a\":null,\"b\":null}\n");
}

TEST(Metrics, RecordWithoutStepIsRefused) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  for (const Json& record :
       {Json{{"loss", 1}}, Json{{"step", -1}}, Json{{"step", 1.5}}, Json{{"step", "1"}}, Json(3)}) {
    EXPECT_THROW(writer.write(record), InvalidArgument) << record;
  }
  EXPECT_EQ(read_file_text(folder / "m.jsonl"), "");
}

TEST(Metrics, TheFollowerGetsWhatWasWritten) {
  const TemporaryDirectory folder;
  MetricsWriter writer(folder / "m.jsonl");
  std::vector<Json> followed;
  std::string file;
  writer.set_follower([&](const Json& record) {
    followed.push_back(record);
    file = read_file_text(folder / "m.jsonl");
  });
  writer.write({{"step", 1}, {"a", 0.5}});
  EXPECT_EQ(file, "{\"step\":1,\"a\":0.5}\n");
  EXPECT_THROW(writer.write({{"step", -1}}), InvalidArgument);
  EXPECT_EQ(followed, (std::vector<Json>{{{"step", 1}, {"a", 0.5}}}));
}

TEST(Metrics, AppendsAndCutsAHalfWrittenLineFirst) {
  const TemporaryDirectory folder;
  folder.write("m.jsonl", "{\"step\":0}\n{\"step\":1,\"lo");
  MetricsWriter(folder / "m.jsonl").write({{"step", 1}});
  EXPECT_EQ(read_file_text(folder / "m.jsonl"), "{\"step\":0}\n{\"step\":1}\n");
  folder.write("n.jsonl", "{\"st");
  MetricsWriter(folder / "n.jsonl").write({{"step", 0}});
  EXPECT_EQ(read_file_text(folder / "n.jsonl"), "{\"step\":0}\n");
}

TEST(Metrics, FullDiskIsAnErrorThatNamesTheFile) {
  EXPECT_THAT(message_of<DataError>([] {
                MetricsWriter("/dev/full").write({{"step", 0}});
              }),
              HasSubstr("cannot write '/dev/full'"));
}

TEST(Metrics, TruncateKeepsStepsUpToTheGivenOne) {
  const TemporaryDirectory folder;
  const auto path =
      folder.write("m.jsonl", "{\"step\":0}\n{\"step\":5}\n{\"step\":6,\"x\":1}\n{\"step\":5,\"late\":1}\n");
  EXPECT_EQ(truncate_to_step(path, 5), 1);
  EXPECT_EQ(read_file_text(path), "{\"step\":0}\n{\"step\":5}\n{\"step\":5,\"late\":1}\n");
  EXPECT_EQ(truncate_to_step(path, 5), 0);
}

TEST(Metrics, TruncateDropsWhatACrashLeftAtTheEnd) {
  const TemporaryDirectory folder;
  const auto half = folder.write("half.jsonl", "{\"step\":0}\n{\"step\":1}");
  EXPECT_EQ(truncate_to_step(half, 9), 1) << "without its newline a line was not written";
  EXPECT_EQ(read_file_text(half), "{\"step\":0}\n");
  const auto zeros = folder.write("zeros.jsonl", std::string("{\"step\":0}\n\0\0\n\0", 15));
  EXPECT_EQ(truncate_to_step(zeros, 9), 2);
  EXPECT_EQ(read_file_text(zeros), "{\"step\":0}\n");
}

TEST(Metrics, TruncateRefusesDamageInTheMiddle) {
  const TemporaryDirectory folder;
  const auto path = folder.write("m.jsonl", "{\"step\":0}\nnonsense\n{\"step\":2}\n");
  EXPECT_THAT(message_of<DataError>([&] { truncate_to_step(path, 1); }), HasSubstr("line 2"));
}

TEST(Metrics, TruncateOfAMissingFileDoesNothing) {
  const TemporaryDirectory folder;
  EXPECT_EQ(truncate_to_step(folder / "none", 3), 0);
  EXPECT_FALSE(std::filesystem::exists(folder / "none"));
}

}  // namespace
}  // namespace terngrad::metrics_test
