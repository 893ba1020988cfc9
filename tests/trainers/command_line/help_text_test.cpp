#include "trainers/command_line/help_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace terngrad::help_text_test {
namespace {

using ::testing::ElementsAre;

TEST(Wrap, BreaksAtBlanks) {
  EXPECT_THAT(wrap("", 10), ElementsAre(""));
  EXPECT_THAT(wrap("one two", 7), ElementsAre("one two"));
  EXPECT_THAT(wrap("one two", 6), ElementsAre("one", "two"));
  EXPECT_THAT(wrap("one  two three", 9), ElementsAre("one  two", "three"));
  EXPECT_THAT(wrap("first\n  second line", 12), ElementsAre("first", "  second", "line"));
}

TEST(Wrap, CutsWordsThatAreTooLong) {
  EXPECT_THAT(wrap("auto|gather|sum", 8), ElementsAre("auto|", "gather|", "sum"));
  EXPECT_THAT(wrap("abcdefgh i", 3), ElementsAre("abc", "def", "gh", "i"));
  EXPECT_THAT(wrap("ab", 0), ElementsAre("a", "b"));
}

TEST(HelpText, DescriptionsStandInAColumnOfTheirOwn) {
  const std::vector<HelpSection> sections = {
      {"Run", {{"--seed N", "of everything that is drawn, for data too"}, {"--help", "print this text"}}},
      {"Exchange",
       {{"--threads N (=0)", "0: all"}, {"--exchange auto|gather|scatter|sum (=auto)", "how messages travel"}}}};
  EXPECT_EQ(format_help(sections, 40),
            "\nRun:\n"
            "  --seed N      of everything that is\n"
            "                drawn, for data too\n"
            "  --help        print this text\n"
            "\nExchange:\n"
            "  --threads N (=0)\n"
            "                0: all\n"
            "  --exchange auto|gather|scatter|sum\n"
            "  (=auto)\n"
            "                how messages travel\n");
  EXPECT_EQ(format_help(sections, 1), format_help(sections, 40));
}

}  // namespace
}  // namespace terngrad::help_text_test
