#include "compress/codec/codec_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "kernels/runtime/errors.h"

namespace terngrad::codec_spec_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "";
}

enum class Norm { kMax, kL2 };

/// Options of a fictitious codec, read from its spec.
struct Options {
  double clip = 2.5;
  std::int64_t block = 512;
  Norm norm = Norm::kMax;
  bool masks = true;
};

Options read_options(SpecReader& reader) {
  Options o;
  o.clip = reader.number("clip", o.clip, 0, std::numeric_limits<double>::max(), "where to clip");
  o.block = reader.integer("block", o.block, 0, 4096, "elements per scaler", 64);
  o.norm = reader.choice("norm", o.norm, {{"max", Norm::kMax}, {"l2", Norm::kL2}}, "what a scaler is");
  o.masks = reader.flag("masks", o.masks, "whether to mask");
  reader.require_for("clip", o.norm == Norm::kL2, "norm=l2");
  reader.finish();
  return o;
}

Options options_of(const std::string& text, const SpecOptions& defaults = {}) {
  SpecReader reader(parse_codec_spec(text), defaults);
  return read_options(reader);
}

std::string canonical(const std::string& text, const SpecOptions& defaults = {}) {
  SpecReader reader(parse_codec_spec(text), defaults);
  read_options(reader);
  return to_string(reader.canonical());
}

std::string refusal_of(const std::string& text) {
  return refusal([&] { options_of(text); });
}

TEST(ParseCodecSpec, ReadsANameAloneOrWithOptionsInTheirOrder) {
  EXPECT_EQ(parse_codec_spec("fp32"), (CodecSpec{"fp32"}));
  EXPECT_EQ(parse_codec_spec("qsgd:norm=l2,bits=4"), (CodecSpec{"qsgd", {{"norm", "l2"}, {"bits", "4"}}}));
  EXPECT_EQ(parse_codec_spec("a_b-1:x.y=-1.5e+3"), (CodecSpec{"a_b-1", {{"x.y", "-1.5e+3"}}}));
}

TEST(ParseCodecSpec, ReadsWhatToStringWrites) {
  for (const char* text : {"fp32", "qsgd:bits=4", "qsgd:bits=4,norm=l2,x=-1e-5"}) {
    EXPECT_EQ(to_string(parse_codec_spec(text)), text);
  }
}

TEST(ParseCodecSpec, RefusesInOneLineThatSaysWhatIsWrongAndWhatIsAccepted) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "the name of the codec is missing"},
      {":bits=4", "the name of the codec is missing"},
      {"qs gd", "'qs gd' is no name"},
      {"bits=4", "'bits=4' is no name"},
      {"qsgd:", "nothing follows ':'"},
      {"qsgd:bits", "'bits' is not KEY=VALUE"},
      {"qsgd:bits=", "'bits=' is not KEY=VALUE"},
      {"qsgd:=4", "'=4' is not KEY=VALUE"},
      {"qsgd:bits=4=5", "'bits=4=5' is not KEY=VALUE"},
      {"qsgd:bits=4:norm=l2", "'bits=4:norm=l2' is not KEY=VALUE"},
      {"qsgd:bits= 4", "'bits= 4' is not KEY=VALUE"},
      {"qsgd:bits=4,", "nothing follows the last ','"},
      {"qsgd:bits=4,,norm=l2", "'' is not KEY=VALUE"},
      {"qsgd:bits=4,bits=4", "the key 'bits' is given twice"},
      {"qsgd:bits=\xc3\xa9", "is not KEY=VALUE"},
  };
  for (const auto& [text, problem] : cases) {
    const std::string line = refusal([&, spec = text] { parse_codec_spec(spec); });
    EXPECT_THAT(line, AllOf(HasSubstr("'" + std::string(text) + "' is no codec spec: "), HasSubstr(problem),
                            HasSubstr("accepted: NAME or NAME:KEY=VALUE")));
    EXPECT_THAT(line, ::testing::Not(HasSubstr("\n")));
  }
}

TEST(SpecReader, GivesDefaultsWhereTheSpecSaysNothing) {
  const Options o = options_of("codec");
  EXPECT_EQ(o.clip, 2.5);
  EXPECT_EQ(o.block, 512);
  EXPECT_EQ(o.norm, Norm::kMax);
  EXPECT_TRUE(o.masks);
}

TEST(SpecReader, ReadsEachTypeInAnyOrder) {
  const Options o = options_of("codec:masks=false,norm=l2,block=64,clip=1e-3");
  EXPECT_EQ(o.clip, 1e-3);
  EXPECT_EQ(o.block, 64);
  EXPECT_EQ(o.norm, Norm::kL2);
  EXPECT_FALSE(o.masks);
  EXPECT_EQ(options_of("codec:norm=l2,clip=0").clip, 0);
  EXPECT_EQ(options_of("codec:block=0").block, 0);
  EXPECT_EQ(options_of("codec:block=4096").block, 4096);
}

TEST(SpecReader, RefusesAValueAndNamesWhatIsAccepted) {
  EXPECT_EQ(refusal_of("codec:clip=-1"), "[codec] clip=-1 is refused; accepted: a number of at least 0");
  EXPECT_EQ(refusal_of("codec:clip=1x"), "[codec] clip=1x is refused; accepted: a number of at least 0");
  EXPECT_EQ(refusal_of("codec:clip=inf"), "[codec] clip=inf is refused: not finite; accepted: a number of at least 0");
  EXPECT_THAT(refusal_of("codec:clip=nan"), HasSubstr("not finite"));
  EXPECT_EQ(refusal_of("codec:block=4160"),
            "[codec] block=4160 is refused; accepted: an integer from 0 to 4096 that is a multiple of 64");
  for (const char* value : {"-64", "65", "1.5", "64.0", "99999999999999999999", "x"}) {
    EXPECT_THAT(refusal_of("codec:block=" + std::string(value)), HasSubstr("that is a multiple of 64")) << value;
  }
  EXPECT_EQ(refusal_of("codec:norm=l1"), "[codec] norm=l1 is refused; accepted: one of max, l2");
  EXPECT_EQ(refusal_of("codec:masks=1"), "[codec] masks=1 is refused; accepted: one of false, true");
}

TEST(SpecReader, RefusesAKeyThatTheCodecLacks) {
  EXPECT_EQ(refusal_of("codec:bits=4"), "[codec] there is no key 'bits'; accepted: clip, block, norm, masks");
  EXPECT_EQ(refusal([] { SpecReader(parse_codec_spec("fp32:bits=4")).finish(); }),
            "[fp32] there is no key 'bits'; accepted: none, the codec has no options");
}

TEST(SpecReader, RefusesAKeyThatHasNoEffectUnlessItIsItsDefault) {
  EXPECT_EQ(refusal_of("codec:clip=1"),
            "[codec] clip=1 has no effect here: it needs norm=l2; accepted without: clip=2.5, its default");
  EXPECT_EQ(refusal_of("codec:clip=2.50"), "");
  EXPECT_EQ(refusal_of("codec:clip=1,norm=l2"), "");
}

TEST(SpecReader, TakesDefaultsFromOutsideForItsKeysAndChecksThem) {
  const SpecOptions outside = {{"clip", "1"}, {"block", "128"}, {"of_another_codec", "1"}};
  const Options o = options_of("codec:block=64", outside);
  EXPECT_EQ(o.clip, 1);  // ignored here; the spec is not wrong
  EXPECT_EQ(o.block, 64);
  EXPECT_THAT(refusal([] { options_of("codec", {{"block", "1"}}); }), HasSubstr("block=1 is refused"));
}

TEST(SpecReader, GivesEqualCanonicalTextsToEqualMeanings) {
  EXPECT_EQ(canonical("codec"), "codec:block=512,norm=max,masks=true");
  EXPECT_EQ(canonical("codec:masks=true,block=512,clip=2.5"), canonical("codec"));
  EXPECT_EQ(canonical("codec:norm=l2,clip=1.50"), "codec:clip=1.5,block=512,norm=l2,masks=true");
  EXPECT_EQ(canonical("codec:norm=l2,clip=-0"), canonical("codec:norm=l2,clip=0"));
  EXPECT_EQ(canonical("codec", {{"block", "64"}}), canonical("codec:block=64"));
  EXPECT_EQ(canonical("codec:norm=l2,clip=0.1"), canonical(canonical("codec:norm=l2,clip=0.1")));
  EXPECT_NE(canonical("codec:norm=l2,clip=0.1"), canonical("codec:norm=l2,clip=0.10000000000000002"));
}

TEST(SpecReader, ListsTheKeysThatWereRead) {
  SpecReader reader(CodecSpec{"codec", {{"block", "64"}}});
  read_options(reader);
  const auto key = [](const char* name, const char* value, const char* accepted) {
    return AllOf(Field(&SpecKey::name, name), Field(&SpecKey::default_value, value),
                 Field(&SpecKey::accepted, accepted));
  };
  EXPECT_THAT(reader.keys(),
              ElementsAre(key("clip", "2.5", "a number of at least 0"),
                          key("block", "512", "an integer from 0 to 4096 that is a multiple of 64"),
                          key("norm", "max", "one of max, l2"), key("masks", "true", "one of false, true")));
  EXPECT_EQ(reader.keys()[1].value, "64");
  EXPECT_EQ(reader.keys()[1].meaning, "elements per scaler");
  EXPECT_FALSE(reader.keys()[0].applies);
}

TEST(SpecReader, RefusesToReadAKeyTwiceOrToJudgeOneThatWasNot) {
  SpecReader reader(CodecSpec{"codec"});
  reader.flag("masks", false, "");
  EXPECT_THROW(reader.flag("masks", false, ""), InvalidArgument);
  EXPECT_THROW(reader.require_for("clip", true, ""), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::codec_spec_test
