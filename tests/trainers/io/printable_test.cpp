#include "trainers/io/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace terngrad::printable_test {
namespace {

using namespace std::string_literals;

TEST(Printable, LeavesTextAsItIs) {
  for (const std::string& text : {""s, "plain, with \\ and 'quotes'"s, "\u00e4 \u20ac \U0001F600"s, "\u00a0"s}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, EscapesControlCharacters) {
  EXPECT_EQ(printable("a\x1b[31mb\x7f\0c"s), "a\\x1b[31mb\\x7f\\x00c");
  EXPECT_EQ(printable("\t\r\n"), "\\t\\r\\n");
  EXPECT_EQ(printable("\u009b1m"), "\\xc2\\x9b1m") << "the eight-bit form of ESC [";
}

TEST(Printable, EscapesWhatIsNotUtf8ByteByByte) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("a\xc3"), "a\\xc3") << "cut short";
  EXPECT_EQ(printable("\xe2\x82z"), "\\xe2\\x82z") << "a letter within";
  EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b") << "ESC in two bytes";
  EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b") << "longer than need be";
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "beyond U+10FFFF";
  EXPECT_EQ(printable("\xf0\x8f\xbf\xbf"), "\\xf0\\x8f\\xbf\\xbf");
}

}  // namespace
}  // namespace terngrad::printable_test
