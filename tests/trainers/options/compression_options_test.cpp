#include "trainers/options/train_option_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "tests/trainers/checked_options.h"
#include "tests/trainers/identity_entries.h"

namespace terngrad::compression_options_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::identity_entry;
using testing::refuse;
using testing::resume_refusal;

TEST(CompressionOptions, OptionsOfTernaryNeedIt) {
  const std::map<std::string, std::string> of_ternary = {
      {"clip_factor", "2.5"},    {"scaler", "original"}, {"scaler_sharing", "mean"}, {"clip_scope", "local"},
      {"scaler_scope", "block"}, {"block_size", "64"},   {"ternary_format", "t5"}};
  for (const char* bits : {"16", "32"}) {
    for (const auto& [name, value] : of_ternary) {
      EXPECT_THAT(refuse({"--num_nodes", "2", "--grad_bits", bits, "--" + name, value}),
                  AllOf(HasSubstr("--" + name + " " + value + ":"), HasSubstr("ternary (--grad_bits 1)")));
    }
  }
}

TEST(CompressionOptions, TheIdentityNamesTheOptionsOfTernaryHoweverTheyWereGiven) {
  const std::vector<std::string> options = {"--codec",          "ternary", "--clip_factor", "250000",
                                            "--scaler_scope",   "block",   "--block_size",  "128",
                                            "--ternary_format", "t5"};
  const std::vector<std::string> spec = {
      "--codec", "ternary:clip_factor=2.5e5,scope=block,block=128,format=t5,rounding=stochastic"};
  EXPECT_EQ(resume_refusal(options, spec), "");
  const std::map<std::string, std::string> entries = {
      {"codec", "ternary"},
      {"codec_for", ""},
      {"codec_spec",
       "ternary:clip_factor=250000,scaler=paper,sharing=max,clip_scope=shared,scope=block,block=128,format=t5,rounding="
       "stochastic,levels=symmetric"},
      {"quantize_logits", "false"},
      {"size_to_binarize", "1"}};
  for (const auto& [key, value] : entries) {
    EXPECT_EQ(identity_entry(options, key), value) << key;
    EXPECT_EQ(identity_entry(spec, key), value) << key;
  }
}

TEST(CompressionOptions, ADifferenceIsNamedByTheOptionThatHasIt) {
  EXPECT_THAT(resume_refusal({"--grad_bits", "1"}, {}), HasSubstr("this run has --grad_bits or --codec 'ternary'"));
  EXPECT_THAT(resume_refusal({"--codec", "ternary:format=t5"}, {"--grad_bits", "1"}),
              AllOf(HasSubstr("--codec 'ternary:"), HasSubstr("format=t5"), HasSubstr("format=t2")));
  EXPECT_THAT(resume_refusal({"--grad_bits", "4"}, {"--grad_bits", "2"}), HasSubstr("--codec 'qsgd:bits=4"));
  // The refusal names a codec that continues the run.
  const std::string refusal = resume_refusal({"--grad_bits", "1"}, {"--grad_bits", "1", "--clip_factor", "2.5"});
  const std::string advice = "to continue the run, give --codec ";
  ASSERT_THAT(refusal, HasSubstr(advice));
  const std::string codec = refusal.substr(refusal.find(advice) + advice.size());
  EXPECT_EQ(resume_refusal({"--codec", codec}, {"--grad_bits", "1", "--clip_factor", "2.5"}), "");
  EXPECT_THAT(resume_refusal({"--grad_bits", "1", "--error_feedback", "true"}, {"--grad_bits", "1"}),
              HasSubstr("--codec_memory 'ef"));
  EXPECT_EQ(resume_refusal({"--grad_bits", "1"}, {"--grad_bits", "1"}), "");
}

}  // namespace
}  // namespace terngrad::compression_options_test
