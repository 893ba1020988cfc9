#include "datasets/sets/optdigits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/datasets/data_files.h"

namespace terngrad::optdigits_test {
namespace {

using ::testing::HasSubstr;

Bytes as_bytes(const std::string& text) { return {text.begin(), text.end()}; }

std::string line(const std::string& pixel, const std::string& label) {
  std::string result;
  for (int i = 0; i < 64; ++i) result += pixel + ",";
  return result + label + "\n";
}

std::string refusal(const std::string& text) {
  return data_error([&] { parse_optdigits("some.tra", as_bytes(text)); });
}

TEST(Optdigits, ReadsPlainAndPacked) {
  const TemporaryFolder folder;
  const Bytes content = as_bytes(line("0", "3") + line("16", "9"));
  folder.write("optdigits.tra", content);
  folder.write("optdigits.tes.gz", gzip(content));
  for (const Subset subset : {Subset::kTrain, Subset::kTest}) {
    const auto set = make_optdigits({.data_dir = folder.path().string(), .subset = subset});
    EXPECT_EQ(set->num_examples(), 2);
    EXPECT_EQ(set->label(0), 3);
    EXPECT_EQ(set->label(1), 9);
    std::vector<float> image(64);
    set->read(1, {}, image);
    EXPECT_EQ(image, std::vector<float>(64, 1.0f));
  }
}

TEST(Optdigits, DamagedLinesAreRefused) {
  EXPECT_THAT(refusal(""), HasSubstr("some.tra' is empty"));
  EXPECT_THAT(refusal(line("0", "1") + line("17", "1")), HasSubstr("line 2: expected a number from 0 to 16"));
  EXPECT_THAT(refusal(line("x", "1")), HasSubstr("found 'x,x,x"));
  EXPECT_THAT(refusal(line("0", "10")), HasSubstr("a number from 0 to 9"));
  EXPECT_THAT(refusal(line("0", "1,1")), HasSubstr("expected its end after the label, found ',1'"));
  EXPECT_THAT(refusal(line("0", "1,")), HasSubstr("expected its end after the label, found ','"));
  EXPECT_THAT(refusal(line("0 ", "1")), HasSubstr("numbers with commas between them, found ' ,0 ,0 ,0 '"));
  EXPECT_THAT(refusal(line("0", "1").substr(0, 40)), HasSubstr("line 1"));
}

}  // namespace
}  // namespace terngrad::optdigits_test
