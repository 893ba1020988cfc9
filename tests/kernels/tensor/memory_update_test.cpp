#include "kernels/tensor/memory_update.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/tensor/bfloat16.h"
#include "support/bits.h"
#include "support/elementwise_runs.h"
#include "support/gradients.h"

namespace terngrad::memory_update_test {
namespace {

using testing::bits_of;

std::vector<float> expected_sum(float decay, std::span<const float> state, float weight, std::span<const float> g) {
  std::vector<float> sum;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const float kept = decay * state[i];
    const float added = weight * g[i];
    sum.push_back(kept + added);
  }
  return sum;
}

TEST(Compensate, RoundsBothProductsAndTheirSum) {
  testing::for_each_elementwise_run([](std::size_t n, std::size_t start, Stream& stream) {
    const std::vector<float> state = testing::gaussian(n + start, 1);
    const std::vector<float> gradient = testing::gaussian(n + start, 2);
    const std::span<const float> from = std::span(state).subspan(start);
    const std::span<const float> g = std::span(gradient).subspan(start);
    for (const float decay : {1.0f, 0.9f}) {
      const float weight = 1.0f - decay == 0 ? 1.0f : 1.0f - decay;
      std::vector<float> out(n, 7.0f);
      compensate({.state = from.data(),
                  .gradient = g.data(),
                  .compensated = out.data(),
                  .count = static_cast<std::int64_t>(n)},
                 decay, weight, stream);
      ASSERT_EQ(bits_of(out), bits_of(expected_sum(decay, from, weight, g))) << n << ' ' << start;
    }
  });
}

TEST(Compensate, TakesNarrowGradientsAsWidened) {
  constexpr std::size_t kCount = 9001;
  Stream stream(Device::cpu(), 2);
  const std::vector<float> state = testing::gaussian(kCount, 1);
  std::vector<std::uint16_t> narrow(kCount);
  encode_bfloat16(testing::gaussian(kCount, 2), narrow, stream);
  std::vector<float> wide(kCount);
  decode_bfloat16(narrow, wide, stream);
  std::vector<float> out(kCount);
  compensate({.state = state.data(),
              .gradient = narrow.data(),
              .type = ElementType::kBfloat16,
              .compensated = out.data(),
              .count = kCount},
             0.5f, 2.0f, stream);
  EXPECT_EQ(bits_of(out), bits_of(expected_sum(0.5f, state, 2.0f, wide)));
}

TEST(Accumulate, AddsTheVelocityToTheResidual) {
  testing::for_each_elementwise_run([](std::size_t n, std::size_t start, Stream& stream) {
    std::vector<std::vector<float>> values;
    for (std::uint64_t seed = 1; seed < 4; ++seed) values.push_back(testing::gaussian(n + start, seed));
    for (const bool nesterov : {false, true}) {
      std::vector<float> next(n, 7.0f);
      std::vector<float> out(n, 7.0f);
      accumulate({.residual = values[0].data() + start,
                  .velocity = values[1].data() + start,
                  .gradient = values[2].data() + start,
                  .next_velocity = next.data(),
                  .compensated = out.data(),
                  .count = static_cast<std::int64_t>(n)},
                 0.9f, nesterov, stream);
      for (std::size_t i = 0; i < n; ++i) {
        const float g = values[2][start + i];
        const float decayed = 0.9f * values[1][start + i];
        const float velocity = decayed + g;
        const float ahead = 0.9f * velocity;
        const float added = nesterov ? ahead + g : velocity;
        ASSERT_EQ(bits_of(next[i]), bits_of(velocity)) << n << ' ' << start;
        ASSERT_EQ(bits_of(out[i]), bits_of(values[0][start + i] + added)) << n << ' ' << start;
      }
    }
  });
}

TEST(Keep, MasksWhatWasSent) {
  testing::for_each_elementwise_run([](std::size_t n, std::size_t start, Stream& stream) {
    const std::vector<float> velocity = testing::gaussian(n + start, 1);
    std::vector<float> sent = testing::gaussian(n + start, 2);
    for (std::size_t i = 0; i < sent.size(); i += 3) sent[i] = i % 2 == 0 ? 0.0f : -0.0f;
    std::vector<float> kept(n, 7.0f);
    update_memory({.encoded = velocity.data() + start,
                   .sent = sent.data() + start,
                   .kept = kept.data(),
                   .count = static_cast<std::int64_t>(n),
                   .rule = MemoryUpdateTask::Rule::kMask},
                  stream);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(bits_of(kept[i]), bits_of(sent[start + i] == 0 ? velocity[start + i] : 0.0f)) << n << ' ' << start;
    }
  });
}

TEST(Keep, AddsWhatWasSent) {
  testing::for_each_elementwise_run([](std::size_t n, std::size_t start, Stream& stream) {
    const std::vector<float> sent = testing::gaussian(n + start, 2);
    std::vector<float> kept = testing::gaussian(n + start, 1);
    std::vector<float> expected(kept.begin() + static_cast<std::ptrdiff_t>(start), kept.end());
    for (std::size_t i = 0; i < n; ++i) expected[i] += sent[start + i];
    update_memory({.encoded = kept.data() + start,
                   .sent = sent.data() + start,
                   .kept = kept.data() + start,
                   .count = static_cast<std::int64_t>(n),
                   .rule = MemoryUpdateTask::Rule::kAdd},
                  stream);
    ASSERT_EQ(bits_of(std::span<const float>(kept).subspan(start)), bits_of(expected)) << n << ' ' << start;
  });
}

TEST(Keep, IsWhatWasNotSentOrAll) {
  testing::for_each_elementwise_run([](std::size_t n, std::size_t start, Stream& stream) {
    const std::vector<float> encoded = testing::gaussian(n + start, 1);
    std::vector<float> sent = testing::gaussian(n + start, 2);
    const std::span<const float> of = std::span(encoded).subspan(start);
    const std::span<float> said = std::span(sent).subspan(start);
    std::vector<float> unsent(n);
    for (std::size_t i = 0; i < n; ++i) unsent[i] = of[i] - said[i];
    std::vector<float> kept(n, 7.0f);
    const auto count = static_cast<std::int64_t>(n);
    update_memory({.encoded = of.data(), .sent = said.data(), .kept = kept.data(), .count = count}, stream);
    ASSERT_EQ(bits_of(kept), bits_of(unsent));
    update_memory({.encoded = of.data(), .kept = kept.data(), .count = count}, stream);
    ASSERT_EQ(bits_of(kept), bits_of(of));
    update_memory({.encoded = of.data(), .sent = said.data(), .kept = said.data(), .count = count}, stream);
    ASSERT_EQ(bits_of(said), bits_of(unsent)) << "in place";
  });
}

TEST(Keep, LeavesTheStateOfADroppedStepAndOfATensorThatIsNotFinite) {
  Stream stream;
  const float encoded = 3.0f;
  const float sent = 1.0f;
  for (const bool is_dropped : {false, true}) {
    for (const bool is_flagged : {false, true}) {
      const std::uint32_t skip = is_dropped ? 1 : 0;
      const float flag = is_flagged ? std::numeric_limits<float>::quiet_NaN() : 0.5f;
      float kept = 7.0f;
      update_memory({.encoded = &encoded, .sent = &sent, .kept = &kept, .count = 1, .flag = &flag, .skip = &skip},
                    stream);
      EXPECT_EQ(kept, is_dropped || is_flagged ? 7.0f : 2.0f);
    }
  }
}

}  // namespace
}  // namespace terngrad::memory_update_test
