#include "datasets/records/label_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/datasets/data_files.h"

namespace terngrad::label_names_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

LabelNames parse(const std::string& text) { return parse_label_names("labels.txt", Bytes(text.begin(), text.end())); }

TEST(LabelNames, AreReadAndWritten) {
  const LabelNames names = parse("3:daisy\r\n\n0:a: b\n");
  EXPECT_EQ(names, (LabelNames{{0, "a: b"}, {3, "daisy"}}));
  EXPECT_EQ(to_text(names), "0:a: b\n3:daisy\n");
  EXPECT_EQ(parse(to_text(names)), names);
  EXPECT_EQ(parse("7:x"), (LabelNames{{7, "x"}}));
}

TEST(LabelNames, OtherLinesAreRefused) {
  for (const char* line : {"daisy", ":daisy", "x:daisy", "-1:daisy", "1048576:daisy", " 1:daisy", "1 :daisy"}) {
    EXPECT_THAT(data_error([&] { parse("0:ok\n" + std::string(line) + "\n"); }),
                AllOf(HasSubstr("'labels.txt': line 2"), HasSubstr(line)));
  }
  EXPECT_THAT(data_error([] { parse("1:a\n1:b\n"); }), HasSubstr("line 2: label 1 is there twice"));
  EXPECT_THAT(data_error([] { parse("\n\n"); }), HasSubstr("names no labels"));
}

TEST(LabelNames, MayBeMissing) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_label_names(folder.path()).has_value());
  folder.write("labels.txt", {'1', ':', 'x'});
  EXPECT_EQ(read_label_names(folder.path()), (LabelNames{{1, "x"}}));
  folder.write("train-00000-of-00002", {});
  std::filesystem::create_directory(folder.path() / "worker_0_of_2");
  EXPECT_FALSE(read_label_names(folder.path() / "worker_0_of_2").has_value());
  std::filesystem::create_symlink("../train-00000-of-00002", folder.path() / "worker_0_of_2/train-00000-of-00002");
  EXPECT_EQ(read_label_names(folder.path() / "worker_0_of_2"), (LabelNames{{1, "x"}})) << "where the links lead";
}

}  // namespace
}  // namespace terngrad::label_names_test
