#include "compress/codecs/codec_registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "kernels/runtime/errors.h"

namespace terngrad::codec_registry_test {
namespace {

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
  CodecOptions options;
  options.num_workers = 7;
  for (const std::string& name : codec_names()) {
    EXPECT_THAT(make_codec(name, options)->options_text(), ::testing::HasSubstr("workers=7")) << name;
  }
}

TEST(CodecRegistry, RefusesAnUnknownName) {
  EXPECT_THROW(make_codec("", {}), InvalidArgument);
  EXPECT_THROW(make_codec("Ternary", {}), InvalidArgument);
}

TEST(CodecRegistry, RefusesImpossibleOptions) {
  CodecOptions options;
  options.num_workers = 0;
  for (const std::string& name : codec_names()) EXPECT_THROW(make_codec(name, options), InvalidArgument) << name;
}

}  // namespace
}  // namespace terngrad::codec_registry_test
