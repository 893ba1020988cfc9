#include "trainers/optim/nadam.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/runtime/errors.h"
#include "tests/support/bits.h"

namespace terngrad::nadam_test {
namespace {

using testing::bits_of;

double momentum_of(int t) { return 0.9 * (1 - 0.5 * std::pow(0.96, 0.004 * t)); }

float gradient_of(int t) { return 0.3f * static_cast<float>(t % 5 - 2) + 0.01f; }

TEST(Nadam, IsThatOfKerasAndPyTorch) {
  Stream stream(Device::cpu(), 1);
  for (const double epsilon : {1e-7, 1e-3}) {
    const auto optimizer = make_nadam(epsilon, 1);
    std::vector<float> weight = {0.5f};
    double w = 0.5, m = 0, v = 0, product = 1;
    for (int t = 1; t <= 300; ++t) {
      const double rate = 0.01 / t;
      const double g = double{gradient_of(t)};
      optimizer->apply(weight, std::vector<float>{gradient_of(t)}, static_cast<float>(rate), stream);
      product *= momentum_of(t);
      m = 0.9 * m + 0.1 * g;
      v = 0.999 * v + 0.001 * g * g;
      const double mean =
          momentum_of(t + 1) * m / (1 - product * momentum_of(t + 1)) + (1 - momentum_of(t)) * g / (1 - product);
      w -= rate * mean / (std::sqrt(v / (1 - std::pow(0.999, t))) + epsilon);
      ASSERT_NEAR(weight[0], w, 2e-6) << t;
    }
  }
}

TEST(Nadam, MomentumRisesFromAHalfOfItsLimit) {
  for (const int t : {1, 100, 5000}) {
    EXPECT_NEAR(nadam_momentum(static_cast<std::uint64_t>(t)), momentum_of(t), 1e-7) << t;
  }
  EXPECT_EQ(nadam_momentum(std::uint64_t{1} << 40), double{0.9f});
}

TEST(Nadam, GoesOnWithTheSameRates) {
  const auto whole = make_nadam(1e-7, 3);
  const auto resumed = make_nadam(1e-7, 3);
  for (const std::uint64_t update : {1u, 2u, 40u, 7000u, 9000u, 100000u}) {
    const UpdateRates ahead = whole->rates(0.5f, update);
    resumed->restore_state({{"nadam_updates", std::to_string(update)}});
    EXPECT_EQ(bits_of(resumed->rates(0.5f, 0)), bits_of(ahead)) << update;
    EXPECT_EQ(bits_of(whole->rates(0.5f, 1)), bits_of(make_nadam(1e-7, 3)->rates(0.5f, 1))) << "after a later one";
  }
  EXPECT_EQ(whole->state().at("nadam_updates"), "0");
  EXPECT_EQ(whole->slots()[1].name, "v");
  EXPECT_THROW(resumed->restore_state({{"adam_updates", "3"}}), DataError);
  EXPECT_THROW(make_nadam(-1, 3), InvalidArgument);
}

}  // namespace
}  // namespace terngrad::nadam_test
