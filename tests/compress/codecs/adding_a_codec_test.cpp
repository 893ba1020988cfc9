// Checks that docs/adding-a-codec.md shows the code of adding_a_codec/, of klevel_codec_test.cpp and below.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/codecs/klevel_codec.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"

namespace terngrad::adding_a_codec_test {
namespace {

using ::testing::HasSubstr;

std::string text_of(const char* path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Code blocks of a document in one language.
std::vector<std::string> blocks_of(const std::string& document, const std::string& language) {
  const std::string opening = "```" + language + "\n";
  std::vector<std::string> blocks;
  for (std::size_t at = document.find(opening); at != std::string::npos; at = document.find(opening, at)) {
    at += opening.size();
    blocks.push_back(document.substr(at, document.find("```", at) - at));
  }
  return blocks;
}

// As in the registry, which names what is shipped only.
constexpr CodecEntry kAdded[] = {
    {"klevel", "evenly spaced levels in 1, 2 or 4 bits",
     [](SpecReader& reader, const CodecContext& c) -> std::unique_ptr<Codec> {
       KLevelOptions options = read_klevel_options(reader);
       options.num_workers = c.num_workers;
       return std::make_unique<KLevelCodec>(options);
     },
     "stochastic k-level quantization (Suresh et al., ICML 2017)", /*runs_on_gpus=*/false},
};

class AddingACodec : public ::testing::Test {
 protected:
  const std::string document_ = text_of("docs/adding-a-codec.md");
};

TEST_F(AddingACodec, TheDocumentShowsTheFilesThatAreCompiled) {
  const std::vector<std::string> blocks = blocks_of(document_, "cpp");
  ASSERT_EQ(blocks.size(), 4u);
  EXPECT_EQ(blocks[0], text_of("tests/compress/adding_a_codec/compress/codecs/klevel_codec.h"));
  EXPECT_EQ(blocks[1], text_of("tests/compress/adding_a_codec/compress/codecs/klevel_codec.cpp"));
  EXPECT_THAT(text_of("tests/compress/codecs/adding_a_codec_test.cpp"), HasSubstr(blocks[2]));
  EXPECT_EQ(blocks[3], text_of("tests/compress/codecs/klevel_codec_test.cpp"));
}

TEST_F(AddingACodec, TheLineOfTheRegistryMakesTheCodec) {
  SpecReader reader(parse_codec_spec("klevel:bits=4"));
  const auto codec = kAdded[0].make(reader, {.num_workers = 5});
  EXPECT_NO_THROW(reader.finish());
  EXPECT_EQ(codec->name(), kAdded[0].name);
  EXPECT_EQ(codec->options_text(), "bits=4 workers=5");
  EXPECT_FALSE(kAdded[0].runs_on_gpus);
  PayloadSlots slots;
  EXPECT_THROW(codec->make_coder({.device = Device::cuda(0)}, {}, slots), NotSupported);
}

// The wire numbers of the example must not be used by a registered codec.
TEST_F(AddingACodec, TheNumbersOfTheExampleAreNoOthers) {
  const KLevelCodec added({});
  for (const std::string& name : codec_names()) {
    const auto codec = make_codec(name, {});
    EXPECT_NE(codec->wire_id(), added.wire_id()) << name;
    EXPECT_NE(codec->record_format(PayloadForm::kNatural), added.record_format(PayloadForm::kNatural)) << name;
    EXPECT_NE(name, added.name());
  }
}

// Build lines: the test's line as in tests/CMakeLists.txt, the source's like that of a registered codec.
TEST_F(AddingACodec, TheLinesOfTheBuildAreAsThoseOfOtherCodecs) {
  const std::vector<std::string> blocks = blocks_of(document_, "cmake");
  ASSERT_EQ(blocks.size(), 2u);
  EXPECT_EQ(blocks[0], "    codecs/klevel_codec.cpp\n");
  EXPECT_THAT(text_of("compress/CMakeLists.txt"), HasSubstr("    codecs/natural_codec.cpp\n"));
  EXPECT_THAT(text_of("tests/CMakeLists.txt"), HasSubstr(blocks[1]));
}

}  // namespace
}  // namespace terngrad::adding_a_codec_test
