#include "kernels/codes/ternarize.h"
#include "kernels/statistics/scaler_limits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"
#include "support/gradients.h"
#include "support/reference.h"
#include "support/sanitized.h"
#include "support/simd_targets.h"

namespace terngrad::ternarize_test {
namespace {

using reference::Bytes;

constexpr std::uint8_t kCanary = 0xa5;
const DrawKey kKey{0x0123456789abcdef, 42, 3, DrawPurpose::kTernarize};
const reference::Stream kStream{0x0123456789abcdef, 42, 3, 1};

/// A payload buffer with guard bytes after the payload.
class Payload {
 public:
  Payload(TernaryFormat format, std::int64_t n, int num_workers)
      : size_(static_cast<std::size_t>(payload_bytes(format, n, num_workers))), words_((size_ + 7) / 8 + 8) {
    std::fill_n(data(), words_.size() * 8, kCanary);
  }
  std::uint8_t* data() { return reinterpret_cast<std::uint8_t*>(words_.data()); }
  Bytes bytes(std::int64_t count) { return {data(), data() + count}; }
  bool overrun() {
    return std::any_of(data() + size_, data() + words_.size() * 8, [](std::uint8_t byte) { return byte != kCanary; });
  }

 private:
  std::size_t size_;
  std::vector<std::uint64_t> words_;
};

struct Case {
  std::span<const float> gradient;
  reference::Run run;
  std::vector<float> scalers;
  std::vector<float> clips;
  TernaryFormat format = TernaryFormat::kT2;
  int num_workers = 1;
  int num_threads = 1;
  DrawKey key = kKey;
};

Bytes run_kernel(const Case& c) {
  const auto n = static_cast<std::int64_t>(c.gradient.size());
  Payload payload(c.format, n, c.num_workers);
  const TernarizeTask task{.gradient = c.gradient.data(),
                           .first = c.run.first,
                           .count = n,
                           .draw_offset = static_cast<std::int64_t>(c.run.draw_offset),
                           .block_elements = c.run.block_elements,
                           .scalers = c.scalers.data(),
                           .clips = c.clips.empty() ? nullptr : c.clips.data(),
                           .payload = payload.data()};
  const TernarizeOptions options{.format = c.format,
                                 .num_workers = c.num_workers,
                                 .refine_purpose = static_cast<DrawPurpose>(c.run.refine_purpose)};
  Stream stream(Device::cpu(), c.num_threads);
  std::int64_t bytes = -1;
  ternarize({&task, 1}, options, c.key, {&bytes, 1}, stream);
  EXPECT_FALSE(payload.overrun()) << to_string(c.format) << " of " << n;
  return payload.bytes(bytes);
}

std::vector<std::int8_t> reference_codes(const Case& c) {
  return reference::ternarize(c.gradient, c.run, c.scalers, c.clips,
                              {c.key.seed, c.key.step, c.key.worker, static_cast<std::uint32_t>(c.key.purpose)});
}

std::vector<std::int8_t> unpacked_t2(const Bytes& bytes, std::size_t n) {
  std::vector<std::int8_t> codes(n);
  for (std::size_t i = 0; i < n; ++i) {
    const int bits = bytes[i / 4] >> (2 * (i % 4)) & 3;
    codes[i] = static_cast<std::int8_t>(bits == 0 ? 0 : bits == 1 ? 1 : -1);
  }
  return codes;
}

void expect_reference(const Case& c, const std::string& what) {
  const Bytes expected = reference::pack(reference_codes(c), static_cast<int>(c.format), c.num_workers);
  ASSERT_EQ(run_kernel(c), expected) << to_string(c.format) << ", " << what;
}

class TernarizeFormat : public ::testing::TestWithParam<std::tuple<TernaryFormat, int>> {
 protected:
  TernaryFormat format() const { return std::get<0>(GetParam()); }
  int num_workers() const { return std::get<1>(GetParam()); }
};

TEST_P(TernarizeFormat, MatchesTheReferenceAtEveryLength) {
  const std::vector<float> gradient = testing::gaussian(4100, 1);
  Case c{gradient, {}, {2.5f}, {}, format(), num_workers()};
  const std::vector<std::int8_t> codes = reference_codes(c);  // a prefix has the same codes
  testing::for_each_target([&](const std::string& target) {
    for (std::size_t n = 0; n <= gradient.size(); n += testing::kLengthStep) {
      c.gradient = std::span(gradient).first(n);
      ASSERT_EQ(run_kernel(c), reference::pack(std::span(codes).first(n), static_cast<int>(format()), num_workers()))
          << target << ", length " << n;
    }
  });
}

TEST_P(TernarizeFormat, MatchesTheReferenceAroundChunksWithAnyNumberOfThreads) {
  // 64 ragged chunks: several groups in all formats (lanes of one worker are packed 32 chunks at a time).
  const std::vector<float> gradient = testing::gaussian(64 * kChunkElements + 1234, 2);
  Case c{gradient, {}, {2.5f}, {}, format(), num_workers()};
  const std::vector<std::int8_t> codes = reference_codes(c);
  std::vector<std::size_t> lengths = {gradient.size()};
  for (const std::size_t chunks : {1u, 2u, 3u, 5u, 32u, 64u}) {
    for (const std::size_t n : {chunks * 4096 - 1, chunks * 4096, chunks * 4096 + 1}) lengths.push_back(n);
  }
  for (const std::size_t n : lengths) {
    const Bytes expected = reference::pack(std::span(codes).first(n), static_cast<int>(format()), num_workers());
    testing::for_each_target([&](const std::string& target) {
      for (const int threads : {1, 2, 3, 4}) {
        c.gradient = std::span(gradient).first(n);
        c.num_threads = threads;
        ASSERT_EQ(run_kernel(c), expected) << target << ", length " << n << ", threads " << threads;
      }
    });
  }
}

TEST_P(TernarizeFormat, DoesNotDependOnTheAlignment) {
  const std::vector<float> gradient = testing::gaussian(5003, 3);
  Case c{gradient, {}, {2.5f}, {}, format(), num_workers()};
  const Bytes expected = reference::pack(reference_codes(c), static_cast<int>(format()), num_workers());
  testing::for_each_target([&](const std::string& target) {
    for (std::size_t start = 0; start < 16; ++start) {
      // Exact length, so that the address sanitizer detects reads past the end.
      std::vector<float> moved(start + gradient.size());
      std::copy(gradient.begin(), gradient.end(), moved.begin() + static_cast<std::ptrdiff_t>(start));
      c.gradient = std::span(moved).subspan(start);
      ASSERT_EQ(run_kernel(c), expected) << target << ", start " << start;
    }
  });
}

TEST_P(TernarizeFormat, TakesAScalerPerBlock) {
  const std::vector<float> gradient = testing::gaussian(30000, 4);
  for (const std::int64_t block : {64, 128, 192, 4096, 4160, 8192, 10048, 32768}) {
    for (const std::int64_t first : {0, 4096, 12288}) {
      for (const std::size_t count : {1u, 63u, 64u, 65u, 4096u, 17707u}) {
        const auto n = static_cast<std::int64_t>(count);
        Case c{std::span(gradient).first(count), {}, {}, {}, format(), num_workers()};
        c.run = {first, 640, block, 2};
        for (std::int64_t b = first / block; b <= (first + n - 1) / block; ++b) {
          // All kinds of scalers, next to each other.
          const float kinds[] = {2.5f, 0.7f, canonical_nan(), 3.9f, 0.0f, 0x1p-90f};
          c.scalers.push_back(kinds[b % 6]);
        }
        ASSERT_EQ(num_blocks(first, n, block), static_cast<std::int64_t>(c.scalers.size()));
        const Bytes expected = reference::pack(reference_codes(c), static_cast<int>(format()), num_workers());
        testing::for_each_target([&](const std::string& target) {
          ASSERT_EQ(run_kernel(c), expected) << target << ", blocks of " << block << ", " << count << " from " << first;
        });
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, TernarizeFormat,
                         ::testing::Values(std::tuple(TernaryFormat::kT2, 1), std::tuple(TernaryFormat::kT5, 1),
                                           std::tuple(TernaryFormat::kTMask, 1), std::tuple(TernaryFormat::kTrans, 1),
                                           std::tuple(TernaryFormat::kLanes, 1), std::tuple(TernaryFormat::kLanes, 5),
                                           std::tuple(TernaryFormat::kLanes, 600)),
                         [](const auto& parameter) {
                           return to_string(std::get<0>(parameter.param)) +
                                  std::to_string(std::get<1>(parameter.param));
                         });

void expect_on_every_target(const Case& c, const std::string& what) {
  testing::for_each_target([&](const std::string& target) { expect_reference(c, target + ", " + what); });
}

TEST(Ternarize, WritesGoldenBytes) {
  // Elements that do not depend on draws: 0 or at least s. Bytes computed by hand from kernels/codes/ternary.h.
  const std::vector<float> gradient = {2, -2, 0, 3, -0.0f, 0, -9, -2, 2, 0};
  Case c{gradient, {}, {2.0f}, {}};
  EXPECT_EQ(run_kernel(c), (Bytes{0x4d, 0xf0, 0x01, 0x00}));
  c.format = TernaryFormat::kT5;
  EXPECT_EQ(run_kernel(c), (Bytes{0x92, 0x88, 0x00, 0x00}));
  c.format = TernaryFormat::kTMask;
  EXPECT_EQ(run_kernel(c), (Bytes{0, 0, 0, 0, 1, 0, 0, 0, 0xcb, 0x01, 0, 0, 0x1a, 0, 0, 0}));
  c.format = TernaryFormat::kLanes;
  c.num_workers = 4;
  EXPECT_EQ(run_kernel(c), (Bytes{0x02, 0x21, 0x11, 0x00, 0x12, 0x00, 0x00, 0x00}));
}

TEST(Ternarize, DrawsArePinned) {
  // Draws are part of the format: r16 of elements 0..7 for seed 1, step 0, worker 0 give these codes.
  const std::vector<float> gradient(8, 1.0f);
  const auto r16 = reference::draws16({1, 0, 0, 1}, 0, 8);
  Case c{gradient, {}, {2.0f}, {}};
  c.key = {1, 0, 0, DrawPurpose::kTernarize};
  const auto codes = unpacked_t2(run_kernel(c), 8);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(codes[i], r16[i] < 32768 ? 1 : 0) << i;
}

TEST(Ternarize, RefinesTiesBothWays) {
  // t = r16 + f exactly: non-zero if and only if the 24 refinement bits are below f * 2^24.
  constexpr std::size_t n = 20000;
  const auto r16 = reference::draws16(kStream, 0, n);
  reference::Stream refine = kStream;
  refine.purpose = 2;
  std::vector<float> gradient(n);
  std::vector<std::int8_t> expected(n);
  std::size_t num_nonzero = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const double f = static_cast<double>(i % 4) / 4;
    gradient[i] = static_cast<float>((r16[i] + f) / 65536);
    expected[i] = reference::draw24(refine, i) < f * 0x1p24 ? 1 : 0;
    num_nonzero += expected[i] != 0;
  }
  ASSERT_GT(num_nonzero, n / 4);
  ASSERT_LT(num_nonzero, n / 2);
  testing::for_each_target([&](const std::string& target) {
    EXPECT_EQ(unpacked_t2(run_kernel({gradient, {}, {1.0f}, {}}), n), expected) << target;
  });
}

TEST(Ternarize, RefinesTiesToTheLastBit) {
  // Where r16 is 0, t has all 24 bits of f: an element at the draw gives 0, one step above it non-zero.
  constexpr std::size_t n = std::size_t{1} << 21;
  const auto r16 = reference::draws16(kStream, 0, n);
  reference::Stream refine = kStream;
  refine.purpose = 2;
  std::vector<float> gradient(n, 0.0f);
  std::vector<std::int8_t> expected(n, 0);
  std::size_t ties = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (r16[i] != 0) continue;
    const std::uint32_t r24 = reference::draw24(refine, i);
    const bool above = ties++ % 2 == 0;
    gradient[i] = -static_cast<float>(std::ldexp(static_cast<double>(r24 + (above ? 1 : 0)), -40));
    expected[i] = above ? -1 : 0;
  }
  ASSERT_GT(ties, 10u);
  EXPECT_EQ(unpacked_t2(run_kernel({gradient, {}, {1.0f}, {}}), n), expected);
}

TEST(Ternarize, JustBelowTheScalerUsesTheDraw) {
  // The largest magnitude below s and the largest draw: t = 65536 - 2^-8, h = 65535.
  const auto r16 = reference::draws16(kStream, 0, 1 << 18);
  const auto at = static_cast<std::size_t>(std::find(r16.begin(), r16.end(), 65535u) - r16.begin());
  ASSERT_LT(at, r16.size());
  for (const float s : {1.0f, 0.3f, 1.7f, 3e-20f, 9e30f}) {
    std::vector<float> gradient(at + 1, std::nextafter(s, 0.0f));
    expect_on_every_target({gradient, {}, {s}, {}}, "below s = " + std::to_string(s));
    gradient[at] = s;
    expect_on_every_target({gradient, {}, {s}, {}}, "at s = " + std::to_string(s));
    EXPECT_EQ(unpacked_t2(run_kernel({gradient, {}, {s}, {}}), at + 1)[at], 1);
  }
}

/// Draw indices with the maximum 16-bit draw, and their refinement bits.
std::vector<std::pair<std::uint64_t, std::uint32_t>> max_draws(std::uint64_t num_draws) {
  reference::Stream refine = kStream;
  refine.purpose = 2;
  std::vector<std::pair<std::uint64_t, std::uint32_t>> found;
  for (std::uint64_t first = 0; first < num_draws; first += 1 << 16) {
    const auto r16 = reference::draws16(kStream, first, 1 << 16);
    for (std::size_t i = 0; i < r16.size(); ++i) {
      if (r16[i] == 65535) found.emplace_back(first + i, reference::draw24(refine, first + i));
    }
  }
  return found;
}

/// Code of magnitude m with scaler s for one draw index.
int code_at(std::uint64_t index, float m, float s) {
  const std::vector<float> gradient(index % 64 + 1, m);
  Case c{gradient, {}, {s}, {}};
  c.run.draw_offset = index / 64 * 64;
  return unpacked_t2(run_kernel(c), gradient.size()).back();
}

TEST(Ternarize, ElementsAtTheScalerAreCertainWhateverTheyRoundTo) {
  // s * fl(1 / s) rounds below 1 here, so the draw 65535 ties, and refinement bits of at least 2^24 (1 - 2^-8) would
  // give zero.
  float s = 1.5f;
  while (s * (1.0f / s) >= 1.0f) s = std::nextafter(s, 2.0f);
  int num_hard = 0;
  for (const auto& [index, r24] : max_draws(testing::scaled<std::uint64_t>(1 << 26, 1 << 25))) {
    if (r24 < 0xff0000) continue;
    ++num_hard;
    testing::for_each_target([&, i = index](const std::string& target) { EXPECT_EQ(code_at(i, s, s), 1) << target; });
  }
  EXPECT_GT(num_hard, 0);
}

TEST(Ternarize, ElementsBelowTheScalerThatRoundToItAreCertain) {
  // m < s, but fl(m * fl(1 / s)) is 1: t = 65536 exceeds all draws.
  float s = 2.0f;
  do {
    s = std::nextafter(s, 1.0f);
    ASSERT_GT(s, 1.5f) << "no such scaler";
  } while (std::nextafter(s, 0.0f) * (1.0f / s) < 1.0f);
  for (const auto& [index, r24] : max_draws(1 << 20)) {
    testing::for_each_target(
        [&, i = index](const std::string& target) { EXPECT_EQ(code_at(i, std::nextafter(s, 0.0f), s), 1) << target; });
  }
}

TEST(Ternarize, DrawIndicesCrossTwoToThe35) {
  // The block index passes 2^32 and carries into another counter word.
  const std::vector<float> gradient = testing::gaussian(3 * 4096 + 5, 5);
  for (const std::uint64_t before :
       {std::uint64_t{64}, std::uint64_t{4096}, std::uint64_t{4160}, std::uint64_t{8192}}) {
    Case c{gradient, {}, {2.5f}, {}};
    c.run.draw_offset = (std::uint64_t{1} << 35) - before;
    expect_on_every_target(c, "2^35 - " + std::to_string(before));
  }
  Case c{gradient, {}, {2.5f}, {}};
  c.run = {std::int64_t{1} << 35, (std::uint64_t{5} << 47) - 4096, 0, 2};
  expect_on_every_target(c, "bits up to 49");
}

TEST(Ternarize, UsesAllBitsOfSeedStepAndWorker) {
  const std::vector<float> gradient = testing::gaussian(5000, 6);
  Case c{gradient, {}, {2.5f}, {}};
  c.key = {0xfedcba9876543210, 0xfedcba9876, 0xffffffff, DrawPurpose::kDownlink};
  c.run.refine_purpose = 4;
  expect_on_every_target(c, "wide key");
}

TEST(Ternarize, ClipsLocallyBeforeComparing) {
  const std::vector<float> gradient = testing::gaussian(20000, 7);
  for (const TernaryFormat format : {TernaryFormat::kT2, TernaryFormat::kTMask}) {
    Case c{
        gradient, {0, 0, 4096, 2}, {2.5f, 2.5f, 1.0f, 2.5f, canonical_nan()}, {1.5f, 2.5f, 3.0f, 0.0f, 1.0f}, format};
    expect_on_every_target(c, "clips");
  }
  // Clipping makes the code of a large element random again.
  const std::vector<float> large(4096, 1e30f);
  const auto codes = unpacked_t2(run_kernel({large, {}, {2.0f}, {1.0f}}), large.size());
  const auto nonzero = std::count(codes.begin(), codes.end(), 1);
  EXPECT_GT(nonzero, 1800);  // binomial(4096, 1/2), 7.7 standard deviations: false alarm 1e-14
  EXPECT_LT(nonzero, 2296);
}

TEST(Ternarize, RefinesTiesOfWhatTheClipLeaves) {
  // Each clip puts one element on a tie; the clipped magnitude decides, not the element's.
  const std::vector<float> gradient(256, 3.0f);
  const auto r16 = reference::draws16(kStream, 0, gradient.size());
  for (const std::uint32_t r : r16) {
    const float clip = (static_cast<float>(r) + 0.5f) / 65536.0f;
    expect_on_every_target({gradient, {}, {1.0f}, {clip}}, "clip " + std::to_string(clip));
  }
}

TEST(Ternarize, ScalerZeroTinyOrNanGivesZeros) {
  const std::vector<float> gradient = testing::gaussian(5000, 8, 1e-20);
  for (const float s : {0.0f, canonical_nan(), std::nextafter(kMinScaler, 0.0f), 1e-45f}) {
    testing::for_each_target([&](const std::string&) {
      const auto codes = unpacked_t2(run_kernel({gradient, {}, {s}, {}}), gradient.size());
      EXPECT_EQ(std::count(codes.begin(), codes.end(), 0), 5000) << s;
    });
  }
}

TEST(Ternarize, ScalerNanHidesElementsThatAreNot) {
  std::vector<float> gradient(300, std::numeric_limits<float>::quiet_NaN());
  gradient[5] = std::numeric_limits<float>::infinity();
  testing::for_each_target([&](const std::string&) {
    const auto codes = unpacked_t2(run_kernel({gradient, {}, {canonical_nan()}, {}}), gradient.size());
    EXPECT_EQ(std::count(codes.begin(), codes.end(), 0), 300);
  });
}

TEST(Ternarize, WorksAtTheEndsOfTheScalersRange) {
  for (const float s : {kMinScaler, kMaxScaler}) {
    std::vector<float> gradient = testing::gaussian(5000, 9, 0.3);
    for (float& g : gradient) g *= s;
    gradient[17] = s;
    gradient[18] = -s;
    gradient[19] = std::numeric_limits<float>::denorm_min();
    gradient[20] = -std::numeric_limits<float>::min();
    gradient[21] = std::numeric_limits<float>::max();
    expect_on_every_target({gradient, {}, {s}, {}}, "s = " + std::to_string(s));
  }
}

TEST(Ternarize, MatchesTheReferenceOnDegenerateInput) {
  const std::size_t n = 4200;
  std::vector<float> outlier(n, 1e-7f);
  outlier[4099] = -1e6f;
  std::vector<float> denormal(n);
  for (std::size_t i = 0; i < n; ++i)
    denormal[i] = std::ldexp(i % 2 == 0 ? 1.0f : -1.0f, -149 + static_cast<int>(i % 23));
  const std::vector<std::pair<std::vector<float>, float>> inputs = {{std::vector<float>(n, 0.0f), 0.0f},
                                                                    {std::vector<float>(n, 0.0f), 1.0f},
                                                                    {std::vector<float>(n, -0.3f), 0.3f},
                                                                    {outlier, 1e6f},
                                                                    {denormal, kMinScaler},
                                                                    {std::vector<float>(n, 3e38f), kMaxScaler}};
  for (const auto& [gradient, s] : inputs) expect_on_every_target({gradient, {}, {s}, {}}, std::to_string(s));
}

TEST(Ternarize, AllEqualAtTheScalerGivesAllOnes) {
  const std::vector<float> gradient(1000, -0.3f);
  const auto codes = unpacked_t2(run_kernel({gradient, {}, {0.3f}, {}}), gradient.size());
  EXPECT_EQ(std::count(codes.begin(), codes.end(), -1), 1000);
}

TEST(Ternarize, ManyTasksGiveWhatEachGivesAlone) {
  const std::vector<float> gradient = testing::gaussian(60000, 10);
  const std::vector<std::int64_t> counts = {0, 1, 4095, 0, 4096, 4097, 20481, 7, 25000, 0};
  for (const TernaryFormat format :
       {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask, TernaryFormat::kTrans, TernaryFormat::kLanes}) {
    std::vector<Payload> payloads;
    std::vector<TernarizeTask> tasks;
    std::vector<float> scalers;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      payloads.emplace_back(format, counts[i], 3);
      scalers.push_back(1.0f + static_cast<float>(i));
    }
    std::int64_t at = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      tasks.push_back({.gradient = gradient.data() + at,
                       .first = 0,
                       .count = counts[i],
                       .draw_offset = (at + 63) / 64 * 64,
                       .block_elements = 0,
                       .scalers = &scalers[i],
                       .clips = nullptr,
                       .payload = payloads[i].data()});
      at += counts[i];
    }
    for (const int threads : {1, 2, 3, 4}) {
      Stream stream(Device::cpu(), threads);
      std::vector<std::int64_t> bytes(tasks.size());
      ternarize(tasks, {.format = format, .num_workers = 3}, kKey, bytes, stream);
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        Case c{{static_cast<const float*>(tasks[i].gradient), static_cast<std::size_t>(counts[i])},
               {},
               {scalers[i]},
               {},
               format,
               3};
        c.run.draw_offset = static_cast<std::uint64_t>(tasks[i].draw_offset);
        ASSERT_EQ(payloads[i].bytes(bytes[i]), run_kernel(c)) << to_string(format) << " task " << i;
        ASSERT_FALSE(payloads[i].overrun());
      }
    }
  }
}

TEST(Ternarize, OfASliceGivesThoseCodesOfTheWhole) {
  const std::vector<float> gradient = testing::gaussian(30000, 11);
  const auto whole = unpacked_t2(run_kernel({gradient, {}, {2.5f}, {}}), gradient.size());
  for (const std::size_t first : {4096u, 8192u, 28672u}) {
    Case c{std::span(gradient).subspan(first), {}, {2.5f}, {}};
    c.run.first = static_cast<std::int64_t>(first);
    const auto part = unpacked_t2(run_kernel(c), c.gradient.size());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)));
  }
}

class TernarizeRefuses : public ::testing::Test {
 protected:
  void expect_refused() {
    std::int64_t bytes = 0;
    Stream stream(Device::cpu(), 1);
    EXPECT_THROW(ternarize({&task_, 1}, options_, kKey, {&bytes, 1}, stream), InvalidArgument);
    EXPECT_EQ(payload_[0], 0u);  // nothing was written
  }
  float gradient_[128] = {1};
  float scaler_[2] = {1, 1};
  std::uint64_t payload_[32] = {};
  TernarizeTask task_{gradient_, 0, 128, 0, 0, scaler_, nullptr, reinterpret_cast<std::uint8_t*>(payload_)};
  TernarizeOptions options_;
};

TEST_F(TernarizeRefuses, AStartInsideAChunk) {
  task_.first = 64;
  expect_refused();
}
TEST_F(TernarizeRefuses, AMisalignedDrawOffset) {
  task_.draw_offset = 32;
  expect_refused();
}
TEST_F(TernarizeRefuses, ABlockThatSplitsA64) {
  task_.block_elements = 96;
  expect_refused();
}
TEST_F(TernarizeRefuses, AMisalignedPayload) {
  task_.payload += 2;
  expect_refused();
}
TEST_F(TernarizeRefuses, AnotherNumberOfResults) {
  Stream stream(Device::cpu(), 1);
  EXPECT_THROW(ternarize({&task_, 1}, options_, kKey, {}, stream), InvalidArgument);
}
TEST_F(TernarizeRefuses, LanesThatAreNotWholeWords) {
  options_.format = TernaryFormat::kLanes;
  task_.payload += 4;
  expect_refused();
}
TEST_F(TernarizeRefuses, NegativeCounts) {
  task_.count = -1;
  expect_refused();
}

TEST(NumBlocks, CountsThoseThatASliceTouches) {
  EXPECT_EQ(num_blocks(0, 0, 64), 0);
  EXPECT_EQ(num_blocks(0, 0, 0), 0);
  EXPECT_EQ(num_blocks(8192, 5, 0), 1);
  EXPECT_EQ(num_blocks(0, 64, 64), 1);
  EXPECT_EQ(num_blocks(0, 65, 64), 2);
  EXPECT_EQ(num_blocks(4096, 4096, 5056), 2);
  EXPECT_EQ(num_blocks(4096, 960, 5056), 1);
}

}  // namespace
}  // namespace terngrad::ternarize_test
