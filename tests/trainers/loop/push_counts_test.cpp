#include "trainers/loop/push_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"

namespace terngrad::push_counts_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(PushCounts, AddUp) {
  PushCounts counts{.staleness = {{0, 2}, {3, 1}}, .dropped = 1, .skipped = 0};
  counts += {.staleness = {{3, 4}, {7, 1}}, .dropped = 2, .skipped = 1};
  EXPECT_EQ(counts, (PushCounts{.staleness = {{0, 2}, {3, 5}, {7, 1}}, .dropped = 3, .skipped = 1}));
  EXPECT_EQ(counts.total(), 8u);
  EXPECT_EQ(counts.applied(), 4u);
  EXPECT_DOUBLE_EQ(counts.mean_staleness(), (3.0 * 5 + 7) / 8);
  EXPECT_EQ(PushCounts{}.mean_staleness(), 0);
}

TEST(PushCounts, ComeBackFromText) {
  for (const PushCounts& counts : {PushCounts{}, PushCounts{.staleness = {{0, 2}}, .dropped = 0, .skipped = 5},
                                   PushCounts{.staleness = {{1, 2}, {30, 4}, {1000000007, 1}}, .dropped = 9}}) {
    EXPECT_EQ(parse_push_counts(counts.to_text()), counts);
    EXPECT_THAT(counts.to_text(), Not(HasSubstr(" ")));
  }
  EXPECT_EQ((PushCounts{.staleness = {{0, 2}, {3, 1}}, .dropped = 1}.to_text()), "0:2,3:1;1;0");
}

TEST(PushCounts, OtherTextIsRefused) {
  for (const char* text : {"", ";", ";1", "0:2", "0:2;1", "0:2,;1;0", "0:2;1;0 ", "0;1;0", "2:1,1:1;0;0", "0:2;x;0",
                           "a:1;0;0", "1:1,1:2;0;0", "0:-1;0;0"}) {
    EXPECT_THROW(parse_push_counts(text), DataError) << text;
  }
}

TEST(PushCounts, AreShownAsATable) {
  const std::string table = PushCounts{.staleness = {{0, 1}, {2, 3}}, .dropped = 1}.to_table();
  EXPECT_THAT(table, HasSubstr("            0          1   25.00% #############\n"));
  EXPECT_THAT(table, HasSubstr("            1          0    0.00%\n"));
  EXPECT_THAT(table, HasSubstr("            2          3   75.00% ########################################\n"));
  EXPECT_THAT(table, HasSubstr("mean staleness 1.500; 4 pushes, 1 dropped as too stale, 0 skipped as not finite\n"));
  EXPECT_EQ(PushCounts{}.to_table(), "no pushes\n");
}

TEST(PushCounts, WideOnesAreShownInRanges) {
  const std::string table = PushCounts{.staleness = {{0, 1}, {30, 2}, {49, 1}}}.to_table();
  EXPECT_THAT(table, HasSubstr("          0-2          1"));
  EXPECT_THAT(table, HasSubstr("        30-32          2"));
  EXPECT_THAT(table, HasSubstr("        48-50          1"));
}

}  // namespace
}  // namespace terngrad::push_counts_test
