#include "trainers/options/codec_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "compress/plan/codec_registry.h"
#include "trainers/command_line/option_set.h"

namespace terngrad::codec_list_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(CodecList, HasEveryCodecWithItsSource) {
  const std::string list = codec_list_text(200, {});
  for (const CodecEntry& entry : codec_entries()) {
    const std::string source = entry.source[0] == '\0' ? "" : "  from " + std::string(entry.source) + "\n";
    EXPECT_THAT(list, HasSubstr("\n" + std::string(entry.name) + "\n  " + entry.summary + "\n" + source));
  }
  EXPECT_THAT(list, HasSubstr("32 bits per element; elements of workers add up as floats; unbiased"));
  EXPECT_THAT(list, HasSubstr("16 bits per element; elements of workers add up as floats; biased"));
  EXPECT_THAT(list, HasSubstr("2 bits per element; codes of workers share scalers and add up as integers; unbiased"));
}

TEST(CodecList, HasEveryKeyWithItsDefaultItsMeaningAndWhatItAccepts) {
  const std::string list = codec_list_text(1000, {});
  for (const std::string& name : codec_names()) {
    for (const SpecKey& key : codec_keys(name)) {
      EXPECT_THAT(list, HasSubstr(key.name + "=" + key.default_value + " "));
      EXPECT_THAT(list, HasSubstr(key.meaning + "; accepted: " + key.accepted + "\n"));
    }
  }
  EXPECT_THAT(list, Not(HasSubstr("keys of fp32")));
}

TEST(CodecList, HasThePresetsWithWhatTheyStandFor) {
  constexpr CodecPreset kPresets[] = {{"clipped", "of this test", "ternary:clip_factor=2.5", "none"},
                                      {"plain", "too", "fp32", ""}};
  const std::string list = codec_list_text(200, kPresets);
  EXPECT_THAT(list, HasSubstr("ternary:clip_factor=2.5 with memory none: of this test\n"));
  EXPECT_THAT(list, HasSubstr("fp32: too\n"));
  EXPECT_THAT(codec_list_text(200, {}), Not(HasSubstr("Presets")));
}

TEST(CodecList, ForProgramsHasTheSame) {
  constexpr CodecPreset kPresets[] = {{"clipped", "of this test", "ternary:clip_factor=2.5", "none"}};
  const auto list = nlohmann::json::parse(codec_list_json(kPresets));
  ASSERT_EQ(list["codecs"].size(), codec_entries().size());
  for (std::size_t i = 0; i < codec_entries().size(); ++i) {
    const CodecEntry& entry = codec_entries()[i];
    const auto& codec = list["codecs"][i];
    EXPECT_EQ(codec["name"], entry.name);
    EXPECT_EQ(codec["summary"], entry.summary);
    EXPECT_EQ(codec["source"], entry.source);
    EXPECT_EQ(codec["runs_on_gpus"], entry.runs_on_gpus);
    EXPECT_EQ(codec["keys"].size(), codec_keys(entry.name).size());
  }
  const auto& ternary = list["codecs"][2];
  EXPECT_EQ(ternary["bits_per_element"], nlohmann::json({1.6, 2.0}));
  EXPECT_TRUE(ternary["unbiased"]["by_default"].get<bool>());
  EXPECT_EQ(ternary["summable"]["changed_by"], nlohmann::json::array({"sharing=none", "levels=asymmetric"}));
  EXPECT_EQ(ternary["keys"][0]["default"], "0");
  EXPECT_EQ(list["presets"][0]["spec"], "ternary:clip_factor=2.5");
}

TEST(CodecList, FitsTheTerminal) {
  std::istringstream lines(codec_list_text(60));
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 60u) << line;
}

TEST(CodecList, IsTheAnswerToAQuestion) {
  OptionSet options("test");
  declare_codec_list(options);
  const char* argv[] = {"test", "--list_codecs"};
  const ParseResult parsed = options.parse(2, argv);
  ASSERT_TRUE(parsed.answer);
  EXPECT_EQ(parsed.answer(80), codec_list_text(80));
  const char* for_programs[] = {"test", "--list_codecs_json"};
  EXPECT_EQ(options.parse(2, for_programs).answer(80), codec_list_json());
  EXPECT_TRUE(options.values().empty());
}

}  // namespace
}  // namespace terngrad::codec_list_test
