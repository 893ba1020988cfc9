#include "trainers/launch/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "tests/trainers/temporary_directory.h"
#include "trainers/io/atomic_file.h"

namespace terngrad::progress_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using testing::TemporaryDirectory;

ProgressState full_state() {
  return {.step = 500,
          .total_steps = 10000,
          .loss = 0.12341,
          .accuracy = 0.981,
          .examples_per_second = 4512.3,
          .sent_bytes_per_step = 320000,
          .received_bytes_per_step = 45000,
          .compression_ratio = 15.87,
          .seconds_left = 92};
}

TEST(Progress, FormatsBytesWithThreeDigits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1000), "1.00 kB");
  EXPECT_EQ(format_bytes(9996), "10.0 kB");
  EXPECT_EQ(format_bytes(99960), "100 kB");
  EXPECT_EQ(format_bytes(320000), "320 kB");
  EXPECT_EQ(format_bytes(999600), "1.00 MB");
  EXPECT_EQ(format_bytes(2.5e9), "2.50 GB");
  EXPECT_EQ(format_bytes(-1), "?");
  EXPECT_EQ(format_bytes(std::nan("")), "?");
}

TEST(Progress, FormatsDurationsInTwoUnits) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(59.4), "59s");
  EXPECT_EQ(format_duration(59.6), "1m00s");
  EXPECT_EQ(format_duration(92), "1m32s");
  EXPECT_EQ(format_duration(3599), "59m59s");
  EXPECT_EQ(format_duration(2 * 3600 + 3 * 60 + 59), "2h03m");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600), "3d04h");
  EXPECT_EQ(format_duration(-1), "?");
  EXPECT_EQ(format_duration(std::nan("")), "?");
  EXPECT_EQ(format_duration(INFINITY), "?");
}

TEST(Progress, FullLine) {
  EXPECT_EQ(
      format_progress(full_state()),
      "step 500/10000 5% loss 0.1234 accuracy 0.981 4512 examples/s worker sent 320 kB received 45.0 kB/step 15.9x "
      "fp32, 7.9x bf16 eta 1m32s");
}

TEST(Progress, SaysWhoseBytesTheyAreAndWhatWasSkipped) {
  ProgressState state = full_state();
  state.sender = "server";
  state.skipped_steps = 12;
  EXPECT_THAT(format_progress(state),
              HasSubstr(" skipped 12 server sent 320 kB received 45.0 kB/step 15.9x fp32, 7.9x bf16 "));
  // Skipped steps are shown beside the loss.
  EXPECT_EQ(format_progress(state, 51), "step 500/10000 loss 0.1234 skipped 12 eta 1m32s");
  EXPECT_THAT(format_progress(full_state()), Not(HasSubstr("skipped")));
}

TEST(Progress, UnknownPartsAreLeftOut) {
  EXPECT_EQ(format_progress({.step = 7}), "step 7");
  EXPECT_EQ(format_progress({.step = 7, .loss = std::nan("")}), "step 7 loss nan");
}

TEST(Progress, PercentReaches100AtTheEndOnly) {
  EXPECT_THAT(format_progress({.step = 9999, .total_steps = 10000}), HasSubstr(" 99%"));
  EXPECT_THAT(format_progress({.step = 10000, .total_steps = 10000}), HasSubstr(" 100%"));
}

TEST(Progress, FitsEveryWidthAndKeepsTheMostImportantParts) {
  for (int width = 1; width < 120; ++width) {
    const std::string line = format_progress(full_state(), width);
    EXPECT_LE(line.size(), static_cast<std::size_t>(width));
    EXPECT_THAT(line, StartsWith(std::string("step 500/10000").substr(0, static_cast<std::size_t>(width))));
  }
  EXPECT_EQ(format_progress(full_state(), 40), "step 500/10000 loss 0.1234 eta 1m32s");
}

TEST(Progress, LogModeWritesWholeLines) {
  const TemporaryDirectory folder;
  std::FILE* file = std::fopen((folder / "log").c_str(), "w");
  ASSERT_NE(file, nullptr);
  {
    ProgressDisplay display(file);
    EXPECT_EQ(display.mode(), ProgressDisplay::Mode::kLog);
    display.update({.step = 1});
    display.log({.step = 2});
    display.message("saved");
  }
  std::fclose(file);
  EXPECT_EQ(read_file_text(folder / "log"), "step 2\nsaved\n");
}

TEST(Progress, TerminalModeRedrawsOneLineAndEndsIt) {
  const TemporaryDirectory folder;
  std::FILE* file = std::fopen((folder / "log").c_str(), "w");
  ASSERT_NE(file, nullptr);
  {
    ProgressDisplay display(file, ProgressDisplay::Mode::kTerminal);
    display.update({.step = 1, .total_steps = 3});
    display.update({.step = 2, .total_steps = 3});  // within the redraw interval: not drawn
    display.log({.step = 2, .total_steps = 3});
    display.message("saved");
    display.update({.step = 3, .total_steps = 3});
    display.finish();
    display.finish();
  }
  std::fclose(file);
  const std::string text = read_file_text(folder / "log");
  EXPECT_THAT(text, StartsWith("\rstep 1/3 33%\x1b[K\r\x1b[Ksaved\n\rstep 2/3 66%\x1b[K\rstep 3/3 100%\x1b[K"));
  EXPECT_THAT(text, EndsWith("\x1b[K\n"));
  EXPECT_THAT(text, Not(EndsWith("\n\n")));
}

}  // namespace
}  // namespace terngrad::progress_test
