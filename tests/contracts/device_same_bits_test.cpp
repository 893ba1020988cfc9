// Contracts B1 and B2 between CPU and GPU: random layouts, options and gradients, special values included, give the
// same mean on one rank and on several.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>

#include "compress/codecs/ternary_spec.h"
#include "support/device_exchange.h"
#include "support/device_ranks.h"

namespace terngrad::device_same_bits_test {
namespace {

using testing::Tensors;
using CudaSameBits = testing::CudaTest;

/// Number of random layouts. A few thousand take seconds on a GPU and an hour in the emulation.
int num_layouts() {
  const char* text = std::getenv("TERNGRAD_RANDOM_LAYOUTS");
  return text == nullptr ? 25 : std::atoi(text);
}

using Random = std::mt19937_64;

template <class T, std::size_t n>
T one_of(Random& random, const T (&choices)[n]) {
  return choices[random() % n];
}

/// Tensor sizes from 0 to tens of thousands, log-uniform; many are next to a multiple of a chunk.
Layout random_layout(Random& random) {
  Layout layout;
  const auto num_tensors = 1 + random() % 8;
  for (std::uint64_t t = 0; t < num_tensors; ++t) {
    std::int64_t n = static_cast<std::int64_t>(random() % (std::uint64_t{1} << random() % 16));
    if (random() % 4 == 0) n = static_cast<std::int64_t>(random() % 5 * 4096 + random() % 3);
    layout.add("tensor" + std::to_string(t), {n}, random() % 8 == 0);
  }
  return layout;
}

bool any_adds_up(const Layout& layout, const CompressedAllReduceOptions& options) {
  const CodecPlan plan(layout, options.codecs);
  return std::ranges::any_of(plan.groups(), [](const auto& group) { return group.codec->traits().summable; });
}

CompressedAllReduceOptions random_options(Random& random, const Layout& layout) {
  CompressedAllReduceOptions options;
  const ScalerSharing sharings[] = {ScalerSharing::kMax, ScalerSharing::kMean, ScalerSharing::kNone};
  const ScalerScope scopes[] = {ScalerScope::kLayer, ScalerScope::kBlock, ScalerScope::kModel};
  const TernaryFormat formats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask};
  options.codecs.codec = one_of(random, {"ternary", "ternary", "ternary", "fp32", "bf16"});
  options.codecs.quantize_logits = random() % 2 == 0;
  options.codecs.size_to_binarize = one_of(random, {1, 1, 100});
  TernaryOptions ternary{.clip_factor = one_of(random, {0.0, 1.0, 2.5}),
                         .rule = random() % 2 == 0 ? ScalerRule::kPaper : ScalerRule::kOriginal,
                         .sharing = one_of(random, sharings),
                         .clip_scope = random() % 2 == 0 ? ClipScope::kShared : ClipScope::kLocal,
                         .scope = one_of(random, scopes),
                         .block_elements = one_of(random, {64, 192, 4096, 8192, 32768}),
                         .format = one_of(random, formats)};
  const bool is_asymmetric =
      random() % 3 == 0 && ternary.sharing != ScalerSharing::kMean && ternary.scope != ScalerScope::kModel;
  if (is_asymmetric) ternary.levels = TernaryLevels::kAsymmetric;
  if (random() % 4 == 0) ternary.rounding = Rounding::kStratified;
  if (options.codecs.codec == "ternary") options.codecs.codec = ternary_spec(ternary);
  const bool shared = ternary.sharing != ScalerSharing::kNone && !is_asymmetric;
  const DownlinkCodec returns[] = {DownlinkCodec::kFloat32, DownlinkCodec::kBfloat16, DownlinkCodec::kSums,
                                   DownlinkCodec::kTernary};
  options.downlink_codec = returns[random() % (shared ? 4 : 2)];
  const ExchangeAlgorithm algorithms[] = {ExchangeAlgorithm::kAuto, ExchangeAlgorithm::kAllGather,
                                          ExchangeAlgorithm::kScatterReduce};
  options.algorithm = one_of(random, algorithms);
  options.on_nonfinite = OnNonfinite::kZero;
  options.seed = random();
  if (options.codecs.codec.starts_with("ternary:") && options.seed % 3 == 0) {
    options.codecs.codec += ",rotate=" + std::to_string(64 << options.seed / 3 % 7);
  }
  const bool returns_codes =
      options.downlink_codec == DownlinkCodec::kSums || options.downlink_codec == DownlinkCodec::kTernary;
  if (returns_codes && !any_adds_up(layout, options)) options.downlink_codec = DownlinkCodec::kFloat32;
  return options;
}

/// Normal values; a third of the gradients also have special values.
Tensors random_gradient(const Layout& layout, Random& random) {
  Tensors tensors = testing::gaussian_tensors(layout, random(), std::exp2(static_cast<double>(random() % 40) - 20));
  if (random() % 3 != 0) return tensors;
  const float specials[] = {0.0f,
                            -0.0f,
                            std::numeric_limits<float>::denorm_min(),
                            std::numeric_limits<float>::max(),
                            -std::numeric_limits<float>::max(),
                            0x1p-87f,
                            0x1p126f,
                            std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN()};
  for (std::vector<float>& values : tensors.values) {
    if (values.empty() || random() % 4 != 0) continue;
    const float special = one_of(random, specials);
    if (random() % 4 == 0) {
      std::fill(values.begin(), values.end(), special);
    } else {
      values[random() % values.size()] = special;
    }
  }
  return tensors;
}

void expect_same_mean(std::uint64_t seed) {
  Random random(seed);
  const Layout layout = random_layout(random);
  const CompressedAllReduceOptions options = random_options(random, layout);
  const int num_workers = static_cast<int>(1 + random() % 9);
  std::vector<Tensors> workers;
  for (int w = 0; w < num_workers; ++w) workers.push_back(random_gradient(layout, random));
  const std::uint64_t step = random() >> 24;
  SCOPED_TRACE("seed " + std::to_string(seed));
  testing::ExchangePair(layout, num_workers, options).step(workers, step);
}

/// Compares the means of several ranks, each with at least one worker; for summable codecs with integer_sum, too.
void expect_same_mean_of_ranks(std::uint64_t seed) {
  Random random(seed);
  const Layout layout = random_layout(random);
  CompressedAllReduceOptions options = random_options(random, layout);
  const int size = static_cast<int>(2 + random() % 3);
  const int num_workers = size + static_cast<int>(random() % 5);
  std::vector<Tensors> workers;
  for (int w = 0; w < num_workers; ++w) workers.push_back(random_gradient(layout, random));
  testing::expect_cpus_bits(workers, options, std::array{size}, layout);
  options.algorithm = ExchangeAlgorithm::kIntegerSum;
  if (any_adds_up(layout, options)) testing::expect_cpus_bits(workers, options, std::array{size}, layout);
}

TEST_F(CudaSameBits, ForRandomRanks) {
  for (int i = 0; i < num_layouts(); ++i) {
    SCOPED_TRACE(i);
    expect_same_mean_of_ranks(static_cast<std::uint64_t>(i) + 1001);
    if (HasFatalFailure()) return;
  }
}

TEST_F(CudaSameBits, ForRandomLayoutsOptionsAndGradients) {
  for (int i = 0; i < num_layouts(); ++i) {
    expect_same_mean(static_cast<std::uint64_t>(i) + 1);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace terngrad::device_same_bits_test
