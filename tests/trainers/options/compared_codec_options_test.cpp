#include "trainers/options/compared_codec_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/trainers/temporary_directory.h"
#include "trainers/command_line/option_set.h"

namespace terngrad::compared_codec_options_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

/// Checks these codecs. @param clip_factor  of the command line; empty: not given, 2.5 by default
void check(const std::vector<std::string>& codecs, const std::string& clip_factor = "",
           const std::vector<std::string>& others = {}) {
  double value = 2.5;
  OptionSet options("test");
  options.add("clip_factor", &value, "");
  std::vector<const char*> arguments = {"test"};
  if (!clip_factor.empty()) arguments.insert(arguments.end(), {"--clip_factor", clip_factor.c_str()});
  options.parse(static_cast<int>(arguments.size()), arguments.data());
  check_compared_codecs(options, codecs, value, others);
}

TEST(ComparedCodecOptions, AreSpecsAndShortNames) {
  EXPECT_NO_THROW(
      check({"fp32", "bf16", "t2", "t5", "ternary:format=tmask", "powersgd:rank=2", "topk", "fp16"}, "", {"fp16"}));
  EXPECT_THAT(
      message_of<UsageError>([] {
        check({"t2", "fp16"});
      }),
      AllOf(HasSubstr("--codec fp16"), HasSubstr("accepted: fp32, bf16, ternary, "), HasSubstr("; here also: t2, t5")));
  EXPECT_THAT(message_of<UsageError>([] { check({"ternary:bits=4"}, "", {"fp16"}); }),
              AllOf(HasSubstr("--codec ternary:bits=4"), HasSubstr("no key 'bits'"), HasSubstr("t2, t5, fp16")));
}

TEST(ComparedCodecOptions, AKeyAndAnOptionThatDifferAreRefused) {
  EXPECT_NO_THROW(check({"ternary:clip_factor=1", "t2"}));
  EXPECT_NO_THROW(check({"ternary:clip_factor=1.0", "t2", "bf16"}, "1"));
  EXPECT_EQ(
      message_of<UsageError>([] {
        check({"t2", "ternary:clip_factor=1"}, "2");
      }),
      "--clip_factor 2: contradicts clip_factor=1 in --codec ternary:clip_factor=1; give one of them, or values that "
      "agree");
}

TEST(ComparedCodecOptions, KnowTernaryByAnyName) {
  for (const char* codec : {"t2", "t5", "ternary", "ternary:scope=model"}) EXPECT_TRUE(is_compared_ternary(codec));
  for (const char* codec : {"fp32", "bf16", "fp16"}) EXPECT_FALSE(is_compared_ternary(codec));
}

}  // namespace
}  // namespace terngrad::compared_codec_options_test
