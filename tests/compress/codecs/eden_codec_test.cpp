#include "compress/codecs/eden_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "support/codec_messages.h"
#include "support/exchanges.h"
#include "support/gradients.h"

namespace terngrad::eden_codec_test {
namespace {

using testing::send;
using testing::Sent;
using testing::Tensors;

std::vector<float> decoded(const EdenOptions& options, const std::vector<float>& values, std::uint64_t step = 3) {
  const EdenCodec codec(options);
  Layout layout;
  layout.add("w", {static_cast<std::int64_t>(values.size())});
  const Slice whole{0, 0, static_cast<std::int64_t>(values.size())};
  const Sent sent = send(codec, layout, Tensors(layout, {values}), 0, {whole}, {}, PayloadForm::kNatural, 1, step);
  std::vector<float> out(values.size());
  codec.decode(sent.slices[0], out);
  return out;
}

double product(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

std::vector<float> difference(std::vector<float> a, const std::vector<float>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

/// |Q(g) - g|^2 / |g|^2.
double error(const EdenOptions& options, const std::vector<float>& g, std::uint64_t step = 3) {
  const std::vector<float> lost = difference(decoded(options, g, step), g);
  return product(lost, lost) / product(g, g);
}

TEST(EdenCodec, HasTheErrorOfItsLevelsForAnyDistribution) {
  std::vector<float> heavy = testing::gaussian(200 * 4096, 6);  // log-normal magnitudes
  for (float& value : heavy) value = std::copysign(std::exp(1.5f * value), value);
  std::vector<float> gaussian = testing::gaussian(200 * 4096, 7);
  struct Expected {
    int levels;
    double unbiased, least;
  };
  for (const Expected& expected :
       {Expected{2, 0.5708, 0.3634}, Expected{3, 0.2349, 0.1902}, Expected{4, 0.1331, 0.1175},
        Expected{8, 0.0358, 0.0346}, Expected{16, 0.00959, 0.00950}}) {
    for (const auto* g : {&gaussian, &heavy}) {
      // One Hadamard transform leaves a little of a heavy tail.
      const double tolerance = g == &gaussian ? 0.015 : 0.1;
      EXPECT_NEAR(error({.levels = expected.levels}, *g) / expected.unbiased, 1, tolerance) << expected.levels;
      EXPECT_NEAR(error({.levels = expected.levels, .scale = CodebookScale::kLeast}, *g) / expected.least, 1, tolerance)
          << expected.levels;
    }
  }
}

TEST(EdenCodec, HasErrorsThatCancelWhereGradientsDiffer) {
  // The row of docs/codecs.md: 8 workers, gradients of correlation rho.
  constexpr std::size_t kElements = 50 * 4096;
  constexpr int kWorkers = 8;
  const std::vector<float> common = testing::gaussian(kElements, 100);
  struct Expected {
    float rho;
    double error;
  };
  for (const Expected& expected :
       {Expected{1, 0.236}, Expected{0.9f, 0.093}, Expected{0.5f, 0.065}, Expected{0.1f, 0.138}, Expected{0, 0.234}}) {
    std::vector<float> mean(kElements), sent(kElements);
    for (int worker = 0; worker < kWorkers; ++worker) {
      std::vector<float> g = testing::gaussian(kElements, 101 + static_cast<std::uint64_t>(worker));
      for (std::size_t i = 0; i < g.size(); ++i) {
        g[i] = std::sqrt(expected.rho) * common[i] + std::sqrt(1 - expected.rho) * g[i];
        mean[i] += g[i] / kWorkers;
      }
      const std::vector<float> values = decoded({}, g);
      for (std::size_t i = 0; i < g.size(); ++i) sent[i] += values[i] / kWorkers;
    }
    const std::vector<float> lost = difference(sent, mean);
    EXPECT_NEAR(product(lost, lost) / product(mean, mean) / expected.error, 1, 0.03) << expected.rho;
  }
}

TEST(EdenCodec, IsUnbiasedOverRotations) {
  const std::vector<float> g = testing::gaussian(512, 5);
  constexpr int kDraws = 10000;
  for (const int levels : {2, 3, 8}) {
    std::vector<double> sum(g.size()), squares(g.size());
    for (std::uint64_t step = 0; step < kDraws; ++step) {
      const std::vector<float> values = decoded({.levels = levels, .rotation = 512}, g, step);
      EXPECT_NEAR(product(values, g) / product(g, g), 1, 1e-5);
      for (std::size_t i = 0; i < g.size(); ++i) {
        const double lost = static_cast<double>(values[i]) - static_cast<double>(g[i]);
        sum[i] += lost;
        squares[i] += lost * lost;
      }
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
      EXPECT_LT(std::fabs(sum[i] / kDraws), 6 * std::sqrt(squares[i]) / kDraws) << levels << " levels, " << i;
    }
  }
}

TEST(EdenCodec, KeepsEveryElementOfATail) {
  // Rotated once, the last 2 of 10 elements and the last of 101 have runs of their own, whose levels hardly change.
  struct Tail {
    std::size_t count;
    double bias;  // in root mean squares
  };
  for (const Tail& tail : {Tail{10, 0.15}, Tail{33, 0.01}, Tail{101, 0.01}}) {
    std::vector<float> g = testing::gaussian(128 + tail.count, 5);
    g.back() *= 0.05f;
    const double rms = std::sqrt(product(g, g) / static_cast<double>(g.size()));
    constexpr int kDraws = 3000;
    std::vector<double> sum(g.size()), squares(g.size());
    for (std::uint64_t step = 0; step < kDraws; ++step) {
      const std::vector<float> lost = difference(decoded({.rotation = 128}, g, step), g);
      for (std::size_t i = 0; i < g.size(); ++i) {
        sum[i] += static_cast<double>(lost[i]);
        squares[i] += static_cast<double>(lost[i]) * static_cast<double>(lost[i]);
      }
    }
    for (std::size_t i = 0; i < g.size(); ++i) {
      EXPECT_LT(std::fabs(sum[i] / kDraws), tail.bias * rms + 6 * std::sqrt(squares[i]) / kDraws)
          << tail.count << " " << i;
    }
  }
}

TEST(EdenCodec, LosesWhatIsSmallBesideOneLargeElement) {
  // All rotated elements have nearly the same magnitude, so that all have the same level in every rotation.
  std::vector<float> g = testing::gaussian(4096, 5);
  const double rest = product(g, g);
  g[17] = static_cast<float>(std::sqrt(1000 * rest));
  for (std::uint64_t step = 0; step < 5; ++step) {
    std::vector<float> values = decoded({}, g, step);
    EXPECT_NEAR(values[17] / g[17], 1.001, 1e-4);
    values[17] = 0;
    EXPECT_LT(product(values, values) / rest, 1e-3);
  }
}

TEST(EdenCodec, KeepsMostOfATenthBesideOneLargeElement) {
  std::vector<float> g = testing::gaussian(4096, 5);
  g[17] = 0;
  const std::vector<float> rest = g;
  g[17] = static_cast<float>(std::sqrt(9 * product(rest, rest)));
  double kept = 0;
  constexpr int kSteps = 20;
  for (std::uint64_t step = 0; step < kSteps; ++step) kept += product(decoded({}, g, step), rest) / kSteps;
  EXPECT_NEAR(kept / product(rest, rest), 0.81, 0.03);
}

TEST(EdenCodec, IsExactForOneElement) {
  for (const int levels : {2, 3, 4, 8, 16}) EXPECT_NEAR(decoded({.levels = levels}, {-0.7f})[0], -0.7f, 1e-7f);
}

TEST(EdenCodec, HasOneMeanByEveryAlgorithm) {
  constexpr ExchangeAlgorithm kOfOwnScalers[] = {ExchangeAlgorithm::kAllGather, ExchangeAlgorithm::kScatterReduce};
  for (const char* spec : {"eden:levels=2,rotate=256", "eden:scale=least", "eden:levels=8,rotate=64"}) {
    testing::expect_one_mean(spec, kOfOwnScalers);
  }
}

TEST(EdenCodec, RefusesWhatItCannotDo) {
  for (const char* spec : {"eden:levels=5", "eden:rotate=0", "eden:rotate=8192", "eden:scale=drive", "eden:block=64"}) {
    EXPECT_THROW(make_codec(spec, {}), InvalidArgument) << spec;
  }
  EXPECT_THROW(EdenCodec({.levels = 6}), InvalidArgument);
  EXPECT_THROW(EdenCodec({.rotation = 0}), InvalidArgument);
  EXPECT_THROW(EdenCodec({.rotation = 100}), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::eden_codec_test
