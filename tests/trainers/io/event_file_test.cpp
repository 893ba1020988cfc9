#include "trainers/io/event_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/event_reader.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::event_file_test {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using testing::message_of;
using testing::read_events;
using testing::TemporaryDirectory;

std::string hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

double fixed_clock() { return 1.5; }

// Golden bytes: written by TensorBoard 2.21's RecordWriter for the same events.
constexpr const char* kVersion = "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c";
constexpr const char* kStartOf11 = "0f000000000000006d532b0909000000000000f83f100b3a020801b2012ff1";
constexpr const char* kTwoScalars =
    "2e00000000000000c5cb57fa09000000000000f83f10ac022a200a110a0a747261696e2f6c6f737315cdcccc3d0a0b0a047a"
    "65726f150000000021a90160";
constexpr const char* kHistogram =
    "76000000000000004e43f07d09000000000000f83f10ac022a680a660a01682a6109000000000000f0bf1100000000000000"
    "4019000000000000084021000000000000f83f2900000000000015403218000000000000e0bf000000000000000000000000"
    "000008403a18000000000000f03f000000000000000000000000000000404929df4f";

TEST(EventFile, BytesAreTheGoldenOnes) {
  const TemporaryDirectory folder;
  EventFile events(Folder(folder.path()), fixed_clock);
  EXPECT_EQ(hex(read_file_text(events.path())), kVersion);
  events.purge_from(11);
  events.write_scalars(300, std::vector<NamedScalar>{{"train/loss", 0.1}, {"zero", 0}});
  Histogram histogram;
  histogram.min = -1;
  histogram.max = 2;
  histogram.num = 3;
  histogram.sum = 1.5;
  histogram.sum_squares = 5.25;
  histogram.limits = {-0.5, 0, 3};
  histogram.counts = {1, 0, 2};
  events.write_histograms(300, std::vector<NamedHistogram>{{"h", histogram}});
  EXPECT_EQ(hex(read_file_text(events.path())), std::string(kVersion) + kStartOf11 + kTwoScalars + kHistogram);
}

TEST(EventFile, NameSaysWhatItIs) {
  const TemporaryDirectory folder;
  const EventFile events(Folder(folder.path()), [] { return 1234567890.75; });
  EXPECT_THAT(events.path().filename().string(), MatchesRegex("events\\.out\\.tfevents\\.1234567890\\..+\\.[0-9]+"));
  EXPECT_EQ(events.path().parent_path(), folder.path());
}

TEST(EventFile, ALaterFileSortsAfterTheEarlierOnesWhateverTheClockSays) {
  const TemporaryDirectory folder;
  folder.write("metrics.jsonl", "");
  double now = 5000;
  std::vector<std::filesystem::path> made;
  for (const double then : {5000.0, 5000.9, 10.0, 9999999.0}) {
    now = then;
    made.push_back(EventFile(Folder(folder.path()), [&now] { return now; }).path());
  }
  EXPECT_EQ(testing::event_files(folder.path()), made);
  EXPECT_THAT(made[0].string(), HasSubstr("tfevents.0000005000."));
  EXPECT_THAT(made[2].string(), HasSubstr("tfevents.0000005002."));
}

TEST(EventFile, NonfiniteNumbersAreKept) {
  const TemporaryDirectory folder;
  EventFile events(Folder(folder.path()), fixed_clock);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  events.write_scalars(1, std::vector<NamedScalar>{{"a", kInfinity}, {"b", std::nan("")}, {"c", -1e300}});
  const auto read = read_events(events.path());
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].summary().value(0).simple_value(), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(read[1].summary().value(1).simple_value()));
  EXPECT_EQ(read[1].summary().value(2).simple_value(), -std::numeric_limits<float>::infinity());
}

TEST(EventFile, HistogramsWithoutValuesAreLeftOut) {
  const TemporaryDirectory folder;
  EventFile events(Folder(folder.path()), fixed_clock);
  events.write_histograms(
      7, std::vector<NamedHistogram>{{"none", make_histogram({})}, {"one", make_histogram(std::vector<float>{2.0f})}});
  const auto read = read_events(events.path());
  ASSERT_EQ(read.size(), 2u);
  ASSERT_EQ(read[1].summary().value_size(), 1);
  EXPECT_EQ(read[1].step(), 7);
  EXPECT_EQ(read[1].summary().value(0).tag(), "one");
  EXPECT_EQ(read[1].summary().value(0).histo().num(), 1);
}

TEST(EventFile, StepsBeyond32BitsAreKept) {
  const TemporaryDirectory folder;
  EventFile events(Folder(folder.path()), fixed_clock);
  events.purge_from((std::uint64_t{1} << 40) + 1);
  EXPECT_EQ(read_events(events.path()).at(1).step(), (std::int64_t{1} << 40) + 1);
}

TEST(EventFile, FolderThatIsMissingIsAnError) {
  const TemporaryDirectory folder;
  EXPECT_THAT(message_of<DataError>([&] { EventFile(Folder(folder / "none")); }), HasSubstr("none"));
}

TEST(WallSeconds, AreSecondsSince1970) {
  EXPECT_GT(wall_seconds(), 1.6e9);
  EXPECT_LT(wall_seconds(), 1e11);
}

}  // namespace
}  // namespace terngrad::event_file_test
