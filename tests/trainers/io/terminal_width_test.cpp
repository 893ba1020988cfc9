#include "trainers/io/terminal_width.h"

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string>

namespace terngrad::terminal_width_test {
namespace {

/// A stream on a terminal with a given width; restores COLUMNS at the end.
class TerminalWidth : public ::testing::Test {
 protected:
  TerminalWidth() {
    if (const char* const before = std::getenv("COLUMNS"); before != nullptr) columns_ = before;
    ::unsetenv("COLUMNS");
    struct winsize size = {};
    size.ws_col = 77;
    int terminal = -1;
    if (::openpty(&controller_, &terminal, nullptr, nullptr, &size) == 0) stream_ = ::fdopen(terminal, "w");
  }
  ~TerminalWidth() override {
    if (stream_ != nullptr) std::fclose(stream_);
    if (controller_ >= 0) ::close(controller_);
    if (columns_.empty()) {
      ::unsetenv("COLUMNS");
    } else {
      ::setenv("COLUMNS", columns_.c_str(), 1);
    }
  }
  void SetUp() override {
    if (stream_ == nullptr) GTEST_SKIP() << "no terminal can be made here";
    file_ = std::tmpfile();
    ASSERT_NE(file_, nullptr);
  }
  void TearDown() override {
    if (file_ != nullptr) std::fclose(file_);
  }
  void resize(unsigned short columns) const {
    struct winsize size = {};
    size.ws_col = columns;
    ASSERT_EQ(::ioctl(controller_, TIOCSWINSZ, &size), 0);
  }

  std::string columns_;
  int controller_ = -1;
  std::FILE* stream_ = nullptr;
  std::FILE* file_ = nullptr;  // not a terminal
};

TEST_F(TerminalWidth, IsKnownOfTerminalsOnly) {
  EXPECT_EQ(terminal_width(stream_), 77);
  resize(33);
  EXPECT_EQ(terminal_width(stream_), 33);
  resize(0);
  EXPECT_EQ(terminal_width(stream_), std::nullopt);
  EXPECT_EQ(terminal_width(file_), std::nullopt);
}

TEST_F(TerminalWidth, OfTextHasLimits) {
  EXPECT_EQ(text_width(file_), 80);
  EXPECT_EQ(text_width(stream_), 77);
  resize(500);
  EXPECT_EQ(text_width(stream_), 120);
  resize(3);
  EXPECT_EQ(text_width(stream_), 40);
}

TEST_F(TerminalWidth, OfTextIsColumnsIfThatIsANumber) {
  const std::map<std::string, int> widths = {{"100", 100}, {"9999", 120}, {"1", 40},
                                             {"0", 77},    {"wide", 77},  {"-5", 77}};
  for (const auto& [columns, width] : widths) {
    ::setenv("COLUMNS", columns.c_str(), 1);
    EXPECT_EQ(text_width(stream_), width) << columns;
  }
}

}  // namespace
}  // namespace terngrad::terminal_width_test
