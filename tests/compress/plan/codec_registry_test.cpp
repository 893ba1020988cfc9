#include "compress/plan/codec_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/codec/host_coder.h"
#include "kernels/runtime/errors.h"

namespace terngrad::codec_registry_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string refusal(const std::string& spec) {
  try {
    make_codec(spec, {});
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

TEST(CodecRegistry, MakesEveryCodecThatItNames) {
  EXPECT_THAT(codec_names(), ::testing::IsSupersetOf({"fp32", "bf16", "ternary"}));
  for (const std::string& name : codec_names()) EXPECT_EQ(make_codec(name, {})->name(), name);
}

TEST(CodecRegistry, GivesEveryCodecAWireNumberOfItsOwn) {
  std::set<int> ids;
  for (const std::string& name : codec_names()) ids.insert(make_codec(name, {})->wire_id());
  EXPECT_EQ(ids.size(), codec_names().size());
}

TEST(CodecRegistry, KeepsTheWireNumbers) {
  EXPECT_EQ(make_codec("fp32", {})->wire_id(), 1);
  EXPECT_EQ(make_codec("bf16", {})->wire_id(), 2);
  EXPECT_EQ(make_codec("ternary", {})->wire_id(), 3);
}

TEST(CodecRegistry, HandsOverTheNumberOfWorkers) {
  for (const std::string& name : codec_names()) {
    EXPECT_THAT(make_codec(name, {.num_workers = 7})->options_text(), HasSubstr("workers=7")) << name;
  }
}

TEST(CodecRegistry, HandsOverTheOptionsOfTheSpec) {
  EXPECT_EQ(
      make_codec("ternary:clip_factor=2.5,scaler=original,sharing=mean,clip_scope=local,scope=block,block=128,"
                 "format=tmask",
                 {.num_workers = 3})
          ->options_text(),
      "clip_factor=2.5 scaler=original sharing=mean clip_scope=local scope=block block=128 format=tmask workers=3");
}

TEST(CodecRegistry, RefusesAnUnknownName) {
  EXPECT_THROW(make_codec("", {}), InvalidArgument);
  EXPECT_THAT(refusal("Ternary"),
              ::testing::StartsWith("[codec] unknown codec 'Ternary'; accepted: fp32, bf16, ternary"));
  EXPECT_THROW(codec_keys("ternary:"), InvalidArgument);
}

TEST(CodecRegistry, RefusesKeysThatACodecLacksAndValuesThatItDoesNotTake) {
  EXPECT_EQ(refusal("fp32:bits=4"), "[fp32] there is no key 'bits'; accepted: none, the codec has no options");
  EXPECT_EQ(
      refusal("ternary:bits=4"),
      "[ternary] there is no key 'bits'; accepted: clip_factor, scaler, sharing, clip_scope, scope, block, format, "
      "rounding, levels, rotate");
  EXPECT_EQ(refusal("ternary:format=lanes"),
            "[ternary] format=lanes is refused; accepted: one of t2, t5, tmask, trans");
  EXPECT_THAT(refusal("ternary:scope=block,block=100"), HasSubstr("a multiple of 64"));
}

TEST(CodecRegistry, RefusesImpossibleNumbersOfWorkers) {
  for (const std::string& name : codec_names()) {
    EXPECT_THROW(make_codec(name, {.num_workers = 0}), InvalidArgument) << name;
  }
}

TEST(CodecRegistry, SaysWhereEachCodecIsFrom) {
  for (const CodecEntry& entry : codec_entries()) {
    const std::string name = entry.name;
    EXPECT_EQ(std::string(entry.source).empty(), name == "fp32" || name == "bf16") << name;
  }
}

TEST(CodecRegistry, SaysWhichCodecsRunOnGpus) {
  for (const CodecEntry& entry : codec_entries()) {
    PayloadSlots slots;
    const auto codec = make_codec(entry.name, {});
    const auto coder = codec->make_coder({}, {}, slots);
    // For a low-rank codec the coder makes one worker's message alone, which no exchange sends.
    const bool is_hosts = dynamic_cast<const HostCoder*>(coder.get()) != nullptr && !codec->low_rank();
    EXPECT_EQ(is_hosts, !entry.runs_on_gpus) << entry.name;
  }
}

TEST(CodecRegistry, SaysInOneLineWhatEachCodecIs) {
  std::set<std::string> names;
  for (const CodecEntry& entry : codec_entries()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_THAT(std::string(entry.summary), AllOf(Not(IsEmpty()), Not(HasSubstr("\n")))) << entry.name;
  }
}

TEST(CodecRegistry, ListsTheKeysOfACodecWithTheirDefaults) {
  EXPECT_THAT(codec_keys("fp32"), IsEmpty());
  const auto key = [](const char* name, const char* value) {
    return AllOf(Field(&SpecKey::name, name), Field(&SpecKey::default_value, value),
                 Field(&SpecKey::meaning, Not(IsEmpty())));
  };
  EXPECT_THAT(
      codec_keys("ternary"),
      ElementsAre(key("clip_factor", "0"), key("scaler", "paper"), key("sharing", "max"), key("clip_scope", "shared"),
                  key("scope", "layer"), key("block", "32768"), key("format", "t2"), key("rounding", "stochastic"),
                  key("levels", "symmetric"), key("rotate", "0")));
}

TEST(CodecRegistry, AcceptsEveryDefaultThatItLists) {
  for (const std::string& name : codec_names()) {
    for (const SpecKey& key : codec_keys(name)) {
      EXPECT_EQ(canonical_codec_spec(name + ":" + key.name + "=" + key.default_value), canonical_codec_spec(name));
    }
  }
}

TEST(CodecRegistry, KnowsSpecsOfTheSameCodec) {
  const auto canonical = [](const char* spec) { return to_string(canonical_codec_spec(spec)); };
  EXPECT_EQ(canonical("fp32"), "fp32");
  EXPECT_EQ(canonical("ternary"),
            "ternary:clip_factor=0,scaler=paper,sharing=max,clip_scope=shared,scope=layer,format=t2,"
            "rounding=stochastic,levels=symmetric");
  EXPECT_EQ(canonical("ternary:format=t2,clip_factor=0.0,block=32768"), canonical("ternary"));
  EXPECT_NE(canonical("ternary:clip_factor=2.5"), canonical("ternary"));
  EXPECT_EQ(canonical_codec_spec("ternary:format=t5", {{"format", "tmask"}, {"clip_factor", "2.5"}}),
            canonical_codec_spec("ternary:clip_factor=2.5,format=t5"));
  EXPECT_THROW(canonical_codec_spec("ternary", {{"format", "t3"}}), InvalidArgument);
}

/// Each codec's defaults, and each single option word that gives another codec.
std::vector<std::string> specs_of_every_word() {
  std::vector<std::string> specs;
  for (const std::string& name : codec_names()) {
    specs.push_back(name);
    for (const SpecKey& key : codec_keys(name)) {
      for (const std::string& word : key.words) {
        const std::string spec = name + ":" + key.name + "=" + word;
        try {
          if (canonical_codec_spec(spec) != canonical_codec_spec(name)) specs.push_back(spec);
        } catch (const InvalidArgument&) {
          // Needs another value of another key.
        }
      }
    }
  }
  return specs;
}

// Peers compare options texts: an option missing in the text would go unnoticed.
TEST(CodecRegistry, OptionsTextsTellSpecsApart) {
  std::map<std::pair<int, std::string>, std::string> known;
  const auto expect_new = [&](const std::string& spec) {
    const auto codec = make_codec(spec, {.num_workers = 3});
    const auto [found, is_new] = known.emplace(std::pair(codec->wire_id(), codec->options_text()), spec);
    EXPECT_TRUE(is_new) << spec << " and " << found->second << " have the options text '" << codec->options_text()
                        << "'";
  };
  for (const std::string& spec : specs_of_every_word()) expect_new(spec);
  // Numeric keys: a block size other than the default.
  for (const CodecEntry& entry : codec_entries()) {
    for (const SpecKey& key : codec_keys(entry.name)) {
      if (key.name != "block" || !key.words.empty()) continue;
      for (const std::string with : {"", "scope=block,", "group=block,"}) {
        try {
          expect_new(std::string(entry.name) + ":" + with + "block=1984");
        } catch (const InvalidArgument&) {
          // Needs another key.
        }
      }
    }
  }
}

// Format numbers select the decoder: codecs may share a number only if they share the format.
TEST(CodecRegistry, FormatsAreOfOneCodecEach) {
  std::map<int, std::set<std::string>> codecs_of;
  for (const std::string& spec : specs_of_every_word()) {
    const auto codec = make_codec(spec, {});
    codecs_of[codec->record_format(PayloadForm::kNatural)].insert(codec->name());
  }
  codecs_of.erase(0);                                                           // fp32 and bf16: no codes
  EXPECT_EQ(codecs_of[1], (std::set<std::string>{"qsgd", "ternary"}));          // t2
  EXPECT_EQ(codecs_of[2], (std::set<std::string>{"eden", "ternary"}));          // t5
  EXPECT_EQ(codecs_of[18], (std::set<std::string>{"eden", "onebit", "sign"}));  // bits
  for (const auto& [format, names] : codecs_of) {
    if (format == 1 || format == 2 || format == 18) continue;
    EXPECT_EQ(names.size(), 1u) << "format " << format << " of " << ::testing::PrintToString(names);
  }
}

}  // namespace
}  // namespace terngrad::codec_registry_test
