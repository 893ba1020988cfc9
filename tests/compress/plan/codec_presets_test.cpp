#include "compress/plan/codec_presets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"

namespace terngrad::codec_presets_test {
namespace {

constexpr CodecPreset kPresets[] = {
    {"clipped", "a preset of this test", "ternary:clip_factor=2.5,format=t5", "none"},
    {"plain", "another", "fp32", ""},
};

ExpandedSpec expand(const std::string& text) { return expand_preset(parse_codec_spec(text), kPresets); }

TEST(CodecPresets, StandForACodecItsOptionsAndWhatWorkersKeep) {
  EXPECT_EQ(to_string(expand("clipped").spec), "ternary:clip_factor=2.5,format=t5");
  EXPECT_EQ(expand("clipped").memory, "none");
  EXPECT_EQ(to_string(expand("plain").spec), "fp32");
  EXPECT_EQ(expand("plain").memory, "");
}

TEST(CodecPresets, TakeFurtherOptionsAndOtherValues) {
  EXPECT_EQ(to_string(expand("clipped:sharing=none,format=t2").spec), "ternary:clip_factor=2.5,format=t2,sharing=none");
  EXPECT_EQ(to_string(expand("plain:bits=4").spec), "fp32:bits=4");  // refused by the codec later
}

TEST(CodecPresets, LeaveOtherSpecsAsTheyAre) {
  EXPECT_EQ(to_string(expand("ternary:format=t5").spec), "ternary:format=t5");
  EXPECT_EQ(expand("ternary").memory, "");
  EXPECT_EQ(to_string(expand("unknown").spec), "unknown");
  EXPECT_EQ(to_string(expand_preset(parse_codec_spec("clipped"), {}).spec), "clipped");
}

TEST(CodecPresets, HaveNamesOfTheirOwnAndSpecsThatCodecsTake) {
  std::set<std::string> names;
  for (const std::string& codec : codec_names()) names.insert(codec);
  for (const CodecPreset& preset : codec_presets()) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    EXPECT_NO_THROW(make_codec(preset.name, {})) << preset.name;
    EXPECT_NO_THROW(make_codec(preset.spec, {})) << preset.name;
  }
}

}  // namespace
}  // namespace terngrad::codec_presets_test
