// Checks that docs/adding-a-dataset.md shows the code of adding_a_dataset/ and optdigits_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace terngrad::adding_a_dataset_test {
namespace {

using ::testing::HasSubstr;

std::string text_of(const char* path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// C++ code blocks of a document.
std::vector<std::string> code_blocks(const std::string& document) {
  const std::string opening = "```cpp\n";
  std::vector<std::string> blocks;
  for (std::size_t at = document.find(opening); at != std::string::npos; at = document.find(opening, at)) {
    at += opening.size();
    blocks.push_back(document.substr(at, document.find("```", at) - at));
  }
  return blocks;
}

std::string with_replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

class AddingADataset : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(blocks_.size(), 5u); }

  const std::vector<std::string> blocks_ = code_blocks(text_of("docs/adding-a-dataset.md"));
};

TEST_F(AddingADataset, TheDocumentShowsTheFilesThatAreCompiled) {
  EXPECT_EQ(blocks_[0], text_of("tests/datasets/adding_a_dataset/datasets/sets/optdigits.h"));
  EXPECT_EQ(blocks_[1], text_of("tests/datasets/adding_a_dataset/datasets/sets/optdigits.cpp"));
  EXPECT_EQ(blocks_[2], text_of("tests/datasets/sets/optdigits_test.cpp"));
}

// Registry lines do not compile without the set in the registry; they must look like those of other sets.
TEST_F(AddingADataset, TheLinesElsewhereAreAsThoseOfOtherSets) {
  const std::string entry = with_replaced(blocks_[3], "optdigits", "mnist");
  const std::size_t first = entry.find_first_not_of(' ');
  EXPECT_THAT(text_of("datasets/dataset.cpp"), HasSubstr(entry.substr(first, entry.find('\n') - first)));
  const std::string options = text_of("trainers/options/dataset_recipes.cpp");
  EXPECT_THAT(options, HasSubstr("{\"synthetic\", {.max_steps = \"3000\"}},"));
  EXPECT_THAT(blocks_[4], HasSubstr("{\"optdigits\", {.image_size = \"8\", .max_steps = \"2000\"}},"));
  EXPECT_THAT(options, HasSubstr("const char* image_size = "));
}

}  // namespace
}  // namespace terngrad::adding_a_dataset_test
