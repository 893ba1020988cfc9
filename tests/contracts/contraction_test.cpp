// CodecTraits::is_contractive against the error of messages: |decoded - g|^2 / |g|^2, averaged over draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/plan/codec_facts.h"
#include "compress/plan/codec_registry.h"
#include "support/gradients.h"

namespace terngrad::contraction_test {
namespace {

constexpr std::size_t kElements = 4096;

/// Elements of a normal variable, of a Laplace variable, and of a normal variable of which 1 % are not 0.
std::vector<std::vector<float>> gradients() {
  const std::vector<float> normal = testing::gaussian(kElements, 1);
  std::vector<float> laplace = normal;
  std::vector<float> sparse = normal;
  std::mt19937_64 random(2);
  for (std::size_t i = 0; i < kElements; ++i) {
    laplace[i] = std::copysign(static_cast<float>(-std::log(1 - testing::uniform(random))), normal[i]);
    if (i % 100 != 0) sparse[i] = 0;
  }
  return {normal, laplace, sparse};
}

double error_of(const std::string& spec, std::vector<float> gradient) {
  Layout layout;
  layout.add("w", {64, 64});
  CompressedAllReduceOptions options;
  options.codecs.codec = spec;
  CompressedAllReduce exchange(layout, make_worker_group(1, make_self_communicator()), options);
  const TensorTable table(layout, gradient.data());
  std::vector<float> mean(kElements);
  std::vector<float> sent(kElements);
  double error = 0;
  double square = 0;
  for (std::uint64_t step = 0; step < 8; ++step) {
    exchange.exchange({&table, 1}, TensorTable(layout, mean.data()), step);
    exchange.decode_local(0, 0, sent);
    for (std::size_t i = 0; i < kElements; ++i) {
      error += std::pow(static_cast<double>(sent[i]) - static_cast<double>(gradient[i]), 2);
      square += std::pow(static_cast<double>(gradient[i]), 2);
    }
  }
  return error / square;
}

TEST(Contraction, IsWhatCodecsSayOfThemselves) {
  std::vector<std::string> specs = {"ternary:clip_factor=2.5",
                                    "ternary:clip_factor=1.9",
                                    "qsgd:norm=l2,block=64,bits=8",
                                    "sign:scale=l2,rotate=1024",
                                    "qsgd:norm=l2,block=0",
                                    "sign:scale=drive,rotate=1024",
                                    "ternary:rounding=nearest,clip_factor=1.22"};
  for (const CodecEntry& entry : codec_entries()) {
    const std::vector<std::string> variants = codec_variants(entry.name);
    specs.insert(specs.end(), variants.begin(), variants.end());
  }
  int num_contracting = 0;
  for (const std::string& spec : specs) {
    const CodecTraits traits = make_codec(spec, {})->traits();
    if (traits.votes) continue;
    double worst = 0;
    for (const std::vector<float>& gradient : gradients()) worst = std::max(worst, error_of(spec, gradient));
    num_contracting += traits.is_contractive ? 1 : 0;
    if (traits.is_contractive) {
      EXPECT_LT(worst, 1) << spec;
    } else {
      EXPECT_GT(worst, 0.97) << spec;
    }
  }
  EXPECT_GT(num_contracting, 20);
}

}  // namespace
}  // namespace terngrad::contraction_test
