#include "kernels/runtime/choices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace terngrad {

enum class TestColour { kRed, kBlue };

template <>
struct Choices<TestColour> {
  static constexpr std::array<Choice<TestColour>, 2> kAll = {{{"blue", TestColour::kBlue}, {"red", TestColour::kRed}}};
};

}  // namespace terngrad

namespace terngrad::choices_test {
namespace {

TEST(Choices, AreWordsInTheOrderOfTheList) {
  EXPECT_EQ(word_of(TestColour::kRed), "red");
  EXPECT_EQ(find_choice<TestColour>("blue"), TestColour::kBlue);
  EXPECT_EQ(find_choice<TestColour>("gree"), std::nullopt);
  EXPECT_EQ(accepted_words<TestColour>(), "blue, red");
  EXPECT_THAT(choice_words<TestColour>(), ::testing::ElementsAre("blue", "red"));
  EXPECT_THROW(word_of(static_cast<TestColour>(7)), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::choices_test
