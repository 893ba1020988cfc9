#include "trainers/command_line/config_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"

namespace terngrad::config_file_test {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryDirectory;

TEST(ConfigFile, LinesWithoutBlanksAndComments) {
  const TemporaryDirectory folder;
  const std::vector<ConfigLine> lines = read_config_lines(
      folder.write("run.cfg", "# a comment\n\n  seed = 7 \r\nresume\ncodec_for=a=b\nempty =").string());
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0].number, 3);
  EXPECT_EQ(lines[0].name, "seed");
  EXPECT_EQ(lines[0].value, "7");
  EXPECT_EQ(lines[1].name, "resume");
  EXPECT_FALSE(lines[1].has_value);
  EXPECT_EQ(lines[2].value, "a=b");
  EXPECT_TRUE(lines[3].has_value);
  EXPECT_EQ(lines[3].value, "");
}

TEST(ConfigFile, ReadsPipesToTheirEnd) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const std::string text = "seed = 7\n# " + std::string(10000, 'x') + "\nresume\n";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(ends[1]);
  const std::vector<ConfigLine> lines = read_config_lines("/dev/fd/" + std::to_string(ends[0]));
  ::close(ends[0]);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[1].name, "resume");
  EXPECT_EQ(lines[1].number, 3);
}

TEST(ConfigFile, SaysWhatCannotBeRead) {
  const TemporaryDirectory folder;
  EXPECT_THAT(message_of<DataError>([&] { read_config_lines((folder / "none").string()); }),
              HasSubstr("none': No such file or directory"));
  EXPECT_THAT(message_of<DataError>([&] { read_config_lines(folder.path().string()); }), HasSubstr("Is a directory"));
  EXPECT_THAT(message_of<DataError>([] { read_config_lines("/dev/zero"); }), HasSubstr("more than the 1048576 bytes"));
}

}  // namespace
}  // namespace terngrad::config_file_test
