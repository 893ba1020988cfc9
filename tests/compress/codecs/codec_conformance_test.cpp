// Every registered codec passes the conformance tests of Codec.
#include "support/codec_conformance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compress/plan/codec_registry.h"

namespace terngrad::codec_conformance_test {
namespace {

using testing::MakeCodec;

MakeCodec maker(const std::string& spec) {
  return [=](int num_workers) { return make_codec(spec, {.num_workers = num_workers}); };
}

TEST(CodecConformance, OfEveryCodecWithItsDefaults) {
  for (const std::string& name : codec_names()) testing::check_codec(maker(name));
}

TEST(CodecConformance, OfTernaryWithEveryFormatAndItsOptions) {
  for (const std::string format : {"t2", "t5", "tmask", "trans"}) {
    testing::check_codec(maker("ternary:clip_factor=2.5,format=" + format));
    testing::check_codec(maker("ternary:sharing=none,format=" + format));
  }
  testing::check_codec(maker("ternary:sharing=mean,scope=model"));
  testing::check_codec(maker("ternary:rounding=nearest,clip_factor=1.22"));
  testing::check_codec(maker("ternary:rounding=stratified,clip_factor=2.5"));
  testing::check_codec(maker("ternary:rounding=stratified,sharing=none,scope=block,block=4096,format=t5"));
  testing::check_codec(maker("ternary:rounding=stratified,levels=asymmetric,format=tmask"));
  testing::check_codec(maker("ternary:rounding=nearest,sharing=none,scope=block,block=4096"));
  for (const std::string format : {"t2", "t5", "tmask", "trans"}) {
    testing::check_codec(maker("ternary:levels=asymmetric,format=" + format));
    testing::check_codec(maker("ternary:levels=asymmetric,sharing=none,scope=block,block=1984,format=" + format));
  }
  testing::check_codec(maker("ternary:levels=asymmetric,scope=block,block=4096"));
  testing::check_codec(maker("ternary:levels=asymmetric,rounding=nearest,clip_factor=1.22"));
  testing::check_codec(maker("ternary:levels=asymmetric,clip_factor=1.5,clip_scope=local"));
  for (const std::string block : {"1984", "4096"}) {  // 4096: codes are drawn while measuring
    testing::check_codec(maker("ternary:scope=block,block=" + block));
    testing::check_codec(maker("ternary:sharing=none,scope=block,block=" + block));
  }
}

TEST(CodecConformance, OfQsgdWithEveryWidthAndItsOptions) {
  for (const std::string bits : {"2", "4", "8"}) {
    testing::check_codec(maker("qsgd:sharing=max,bits=" + bits));
    testing::check_codec(maker("qsgd:norm=pow2,block=1984,bits=" + bits));
    testing::check_codec(maker("qsgd:norm=l2,rounding=nearest,block=0,bits=" + bits));
    testing::check_codec(maker("qsgd:norm=rms,sharing=max,block=64,bits=" + bits));
    testing::check_codec(maker("qsgd:rounding=stratified,sharing=max,block=64,bits=" + bits));
  }
}

TEST(CodecConformance, OfNaturalWithItsOptions) {
  for (const std::string block : {"0", "64", "4096"}) {
    testing::check_codec(maker("natural:block=" + block));
    testing::check_codec(maker("natural:bits=4,block=" + block));
    testing::check_codec(maker("natural:bits=4,norm=l2,block=" + block));
  }
}

TEST(CodecConformance, OfSignWithItsOptions) {
  for (const std::string block : {"0", "64", "4096"}) {
    testing::check_codec(maker("sign:scale=l2,zeros=plus,block=" + block));
    testing::check_codec(maker("sign:scale=drive,block=" + block));
    testing::check_codec(maker("sign:reduce=vote,block=" + block));
  }
  testing::check_codec(maker("sign:reduce=vote,scale=one,zeros=plus"));
}

TEST(CodecConformance, OfEdenWithEveryNumberOfLevels) {
  for (const std::string levels : {"2", "3", "4", "8", "16"}) {
    testing::check_codec(maker("eden:levels=" + levels));
    testing::check_codec(maker("eden:scale=least,rotate=64,levels=" + levels));
  }
}

TEST(CodecConformance, OfOnebitWithItsGroups) {
  testing::check_codec(maker("onebit:group=layer"));
  for (const std::string block : {"64", "512", "4096"}) {
    testing::check_codec(maker("onebit:group=block,block=" + block));
  }
}

TEST(CodecConformance, OfTopKWithItsOptions) {
  for (const std::string values : {"fp32", "bf16"}) {
    for (const std::string density : {"0.001", "0.1", "1"}) {
      testing::check_codec(maker("topk:values=" + values + ",density=" + density));
      testing::check_codec(maker("topk:scope=block,values=" + values + ",density=" + density));
    }
    testing::check_codec(maker("topk:scope=block,block=256,values=" + values));
    testing::check_codec(maker("topk:scope=block,block=8192,values=" + values));
  }
}

TEST(CodecConformance, OfTopKWithItsWarmUp) {
  for (const std::string steps : {"1", "2", "100"}) {
    testing::check_codec(maker("topk:density=0.005,stage_steps=" + steps));
    testing::check_codec(maker("topk:density=0.1,values=bf16,stage_steps=" + steps));
  }
}

TEST(CodecConformance, OfRandomKWithItsOptions) {
  for (const std::string values : {"fp32", "bf16"}) {
    for (const std::string density : {"0.001", "0.0009765625", "0.125", "1"}) {
      testing::check_codec(maker("randomk:values=" + values + ",density=" + density));
      testing::check_codec(maker("randomk:scale=q,values=" + values + ",density=" + density));
    }
  }
}

TEST(CodecConformance, OfFp8WithItsOptions) {
  for (const std::string block : {"0", "64", "4096"}) {
    testing::check_codec(maker("fp8:block=" + block));
    testing::check_codec(maker("fp8:rounding=stochastic,block=" + block));
  }
}

TEST(CodecConformance, OfWhatIsRotated) {
  for (const std::string run : {"64", "1024", "4096"}) {
    testing::check_codec(maker("qsgd:rotate=" + run));
    testing::check_codec(maker("qsgd:sharing=max,norm=rms,block=0,rotate=" + run));
    testing::check_codec(maker("ternary:rotate=" + run));
    testing::check_codec(maker("ternary:sharing=none,format=tmask,scope=block,block=4096,rotate=" + run));
    testing::check_codec(maker("sign:scale=drive,rotate=" + run));
  }
  testing::check_codec(maker("qsgd:bits=2,norm=l2,block=64,rotate=256"));
  testing::check_codec(maker("ternary:levels=asymmetric,clip_factor=2.5,scope=block,block=192,rotate=512"));
  testing::check_codec(maker("ternary:scope=model,rounding=nearest,format=t5,rotate=128"));
  testing::check_codec(maker("thc"));
}

TEST(CodecConformance, ABiasIsNoticed) {
  EXPECT_GT(testing::check_bias(maker("ternary:clip_factor=1.5")), 20);
  EXPECT_GT(testing::check_bias(maker("ternary:levels=asymmetric,clip_factor=1.5")), 20);
  EXPECT_GT(testing::check_bias(maker("bf16")), 20);
  EXPECT_GT(testing::check_bias(maker("qsgd:norm=rms,clip=1")), 20);
  EXPECT_EQ(testing::check_bias(maker("fp32")), 0);
}

}  // namespace
}  // namespace terngrad::codec_conformance_test
