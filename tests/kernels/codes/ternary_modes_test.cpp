// Ternary codes with rounding other than the default, or with a scaler for each sign, on the CPU and on a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "kernels/codes/ternarize.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/tensor/slice.h"
#include "support/bits.h"
#include "support/cuda_device.h"
#include "support/gradients.h"
#include "support/guarded_array.h"
#include "support/reference.h"
#include "support/simd_targets.h"

namespace terngrad::ternary_modes_test {
namespace {

using reference::Bytes;
using testing::bits_of;
using CudaTernaryModes = testing::CudaTest;

constexpr Rounding kRoundings[] = {Rounding::kStochastic, Rounding::kNearest, Rounding::kStratified};
constexpr CodeFormat kFormats[] = {CodeFormat::kT2, CodeFormat::kT5, CodeFormat::kTMask, CodeFormat::kTrans};
const DrawKey kKey{0x0123456789abcdef, 42, 3, DrawPurpose::kTernarize};
const float kNan = std::numeric_limits<float>::quiet_NaN();

/// Arguments of one slice, in host memory.
struct Case {
  std::vector<float> gradient = {};
  std::vector<float> scalers = {2.5f};
  std::vector<float> clips = {};  // empty: no clipping
  std::int64_t first = 0;
  std::int64_t block_elements = 0;
  TernarizeOptions options = {};
  std::uint32_t worker = 0;      // added to the key's
  std::size_t misalignment = 1;  // of the gradient, in elements

  std::int64_t count() const { return static_cast<std::int64_t>(gradient.size()); }
  bool is_asymmetric() const { return options.levels == TernaryLevels::kAsymmetric; }
  std::string text() const {
    return to_string(options.format) + ", " + to_string(options.rounding) + " of " +
           std::to_string(options.num_workers) + (is_asymmetric() ? ", asymmetric, " : ", ") + std::to_string(count());
  }
};

/// Index of an element's scaler.
std::size_t scaler_of(const Case& c, std::size_t i) {
  const auto at = c.first + static_cast<std::int64_t>(i);
  const std::int64_t block = c.block_elements == 0 ? 0 : at / c.block_elements - c.first / c.block_elements;
  const auto b = static_cast<std::size_t>(block);
  return !c.is_asymmetric() ? b : 2 * b + (std::signbit(c.gradient[i]) ? 1 : 0);
}

std::vector<std::int8_t> reference_codes(const Case& c) {
  const auto first_draw = static_cast<std::uint64_t>(128 + c.first);
  const std::uint32_t worker = kKey.worker + c.worker;
  const bool is_stratified = c.options.rounding == Rounding::kStratified && c.options.num_workers > 1;
  const reference::Stratified of_worker(worker, static_cast<std::uint32_t>(c.options.num_workers));
  const reference::Stream stream{kKey.seed, kKey.step, is_stratified ? 0 : worker, 1};
  const reference::Stream refine{kKey.seed, kKey.step, is_stratified ? 0 : worker, 2};
  const std::vector<std::uint32_t> shared = reference::draws16(stream, first_draw, c.gradient.size());
  std::vector<std::int8_t> codes;
  for (std::size_t i = 0; i < c.gradient.size(); ++i) {
    const float g = c.gradient[i];
    const std::size_t at = scaler_of(c, i);
    const float s = c.scalers[at];
    const float* clip = c.clips.empty() ? nullptr : &c.clips[at];
    int code = 0;
    if (c.options.rounding == Rounding::kNearest) {
      const float magnitude = clip == nullptr ? std::fabs(g) : std::min(std::fabs(g), *clip);
      if (!std::isnan(s) && s >= 0x1p-86f && 2 * magnitude >= s) code = g < 0 ? -1 : 1;
    } else {
      const auto drawn = [&](std::uint64_t bits) {
        return is_stratified ? of_worker.draw(bits, std::signbit(g)) : bits;
      };
      const auto r16 = static_cast<std::uint32_t>(drawn(std::uint64_t{shared[i]} << 24) >> 24);
      const int low = reference::code(g, s, clip, r16, 0xffffff);
      const int high = reference::code(g, s, clip, r16, 0);
      const auto r24 = [&] { return drawn(reference::draw24(refine, first_draw + i)) & 0xffffffu; };
      code = low == high ? low : reference::code(g, s, clip, r16, static_cast<std::uint32_t>(r24()));
    }
    codes.push_back(static_cast<std::int8_t>(code));
  }
  return codes;
}

Bytes reference_payload(const Case& c) {
  return reference::pack(reference_codes(c), static_cast<int>(c.options.format), c.options.num_workers);
}

/// Payloads of cases with equal options, in one call.
std::vector<Bytes> payloads_on(std::span<const Case> cases, Stream& stream) {
  const TernarizeOptions& options = cases.front().options;
  std::vector<testing::GuardedArray<float>> gradients, scalers, clips;
  std::vector<testing::GuardedArray<std::uint64_t>> payloads;
  std::vector<TernarizeTask> tasks;
  for (const Case& c : cases) {
    gradients.emplace_back(c.gradient, c.misalignment, stream);
    scalers.emplace_back(c.scalers, 0, stream);
    clips.emplace_back(c.clips, 0, stream);
    const auto words = static_cast<std::size_t>(payload_bytes(options.format, c.count(), options.num_workers) + 7) / 8;
    payloads.emplace_back(std::vector<std::uint64_t>(words, 0xa5a5a5a5a5a5a5a5u), 0, stream);
    tasks.push_back({.gradient = gradients.back().data(),
                     .first = c.first,
                     .count = c.count(),
                     .draw_offset = 128,
                     .block_elements = c.block_elements,
                     .scalers = scalers.back().data(),
                     .clips = c.clips.empty() ? nullptr : clips.back().data(),
                     .payload = reinterpret_cast<std::uint8_t*>(payloads.back().data()),
                     .worker = c.worker});
  }
  std::vector<std::int64_t> bytes(cases.size(), -1);
  ternarize(tasks, options, kKey, bytes, stream);
  std::vector<Bytes> result;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::vector<std::uint64_t> written = payloads[i].values();
    const auto* begin = reinterpret_cast<const std::uint8_t*>(written.data());
    result.emplace_back(begin, begin + bytes[i]);
  }
  return result;
}

Bytes payload_on(const Case& c, Stream& stream) { return payloads_on({&c, 1}, stream).front(); }

/// All non-default modes in all formats that support them.
std::vector<TernarizeOptions> all_modes() {
  std::vector<TernarizeOptions> modes;
  for (const Rounding rounding : kRoundings) {
    for (const CodeFormat format : kFormats) {
      modes.push_back({.format = format, .num_workers = 6, .rounding = rounding, .levels = TernaryLevels::kAsymmetric});
    }
  }
  for (const CodeFormat format : kFormats) {
    modes.push_back({.format = format, .num_workers = 8, .rounding = Rounding::kStratified});
  }
  modes.push_back({.num_workers = 5, .rounding = Rounding::kStratified});
  modes.push_back({.num_workers = 1, .rounding = Rounding::kStratified});
  modes.push_back({.format = CodeFormat::kLanes, .num_workers = 4, .rounding = Rounding::kStratified});
  for (const CodeFormat format : kFormats) modes.push_back({.format = format, .rounding = Rounding::kNearest});
  modes.push_back({.format = CodeFormat::kLanes, .num_workers = 5, .rounding = Rounding::kNearest});
  return modes;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (const TernarizeOptions& options : all_modes()) {
    const bool is_asymmetric = options.levels == TernaryLevels::kAsymmetric;
    for (const std::size_t n : {0u, 1u, 15u, 17u, 63u, 64u, 65u, 2049u, 4095u, 4096u, 4097u, 20485u}) {
      Case c{.gradient = testing::gaussian(n, n + 1), .options = options};
      c.scalers = is_asymmetric ? std::vector<float>{2.5f, 0.7f} : std::vector<float>{1.22f};
      cases.push_back(c);
    }
    for (const std::int64_t block : {64, 192, 4096, 4160}) {
      Case c{.gradient = testing::gaussian(9003, 4), .first = 8192, .block_elements = block, .options = options};
      const float kinds[] = {2.5f, 0.7f, kNan, 3.9f, 0.0f, 0x1p-90f, 1.0f};
      const std::int64_t blocks = num_blocks(c.first, c.count(), block) * (is_asymmetric ? 2 : 1);
      c.scalers.clear();
      for (std::int64_t b = 0; b < blocks; ++b) {
        c.scalers.push_back(kinds[b % 7]);
        c.clips.push_back(b % 3 == 0 ? 0.6f : 3.0f);
      }
      cases.push_back(c);
      c.clips.clear();
      cases.push_back(c);
    }
    for (const float s : {0.0f, tiny, kMinScaler, 0.3f, 1.0f, kMaxScaler, kNan}) {
      Case c{.options = options};
      c.scalers = is_asymmetric ? std::vector<float>{s, 1.0f} : std::vector<float>{s};
      for (const float value : {0.0f, -0.0f, tiny, -tiny, kMinScaler, 0.15f, 0.5f, -0.5f, 1.0f, -1.0f, huge, -huge}) {
        for (const float near : {value, std::nextafter(value, 0.0f)}) c.gradient.insert(c.gradient.end(), 40, near);
      }
      cases.push_back(c);
    }
  }
  return cases;
}

TEST(TernaryModes, MatchTheReference) {
  for (const Case& c : all_cases()) {
    const Bytes expected = reference_payload(c);
    testing::for_each_target([&](const std::string& target) {
      for (const int threads : {1, 3}) {
        Stream stream(Device::cpu(), threads);
        ASSERT_EQ(payload_on(c, stream), expected) << target << ", " << c.text() << ", s " << c.scalers[0];
      }
    });
  }
}

TEST_F(CudaTernaryModes, AreTheCpus) {
  Stream cuda(Device::cuda());
  for (const Case& c : all_cases()) {
    if (!runs_on_gpus(c.options.format)) continue;
    ASSERT_EQ(payload_on(c, cuda), reference_payload(c)) << c.text() << ", s " << c.scalers[0];
  }
}

/// Gradients of all eight workers who share draws, of odd length and with blocks of their own scalers.
std::vector<Case> workers_of_one_draw(CodeFormat format) {
  std::vector<Case> cases;
  for (std::uint32_t k = 0; k < 5; ++k) {
    Case c{.gradient = testing::gaussian(5 * 8192 + 77, 40 + k), .first = 8192, .block_elements = 16384};
    c.options = {.format = format, .num_workers = 8, .rounding = Rounding::kStratified};
    c.scalers = {2.5f, k == 2 ? kNan : 1.5f, 3.0f, 2.0f};
    c.worker = k;                     // behind worker 3 of the key
    c.misalignment = k == 1 ? 1 : 0;  // not for whole-chunk kernels
    cases.push_back(c);
  }
  return cases;
}

TEST(TernaryModes, OfWorkersWhoShareDrawsAreThoseOfEach) {
  for (const CodeFormat format : {CodeFormat::kT2, CodeFormat::kT5, CodeFormat::kTMask, CodeFormat::kLanes}) {
    const std::vector<Case> cases = workers_of_one_draw(format);
    for (const int threads : {1, 3}) {
      Stream stream(Device::cpu(), threads);
      const std::vector<Bytes> found = payloads_on(cases, stream);
      for (std::size_t k = 0; k < cases.size(); ++k) ASSERT_EQ(found[k], reference_payload(cases[k])) << k;
    }
  }
}

TEST_F(CudaTernaryModes, OfWorkersWhoShareDrawsAreThoseOfEach) {
  Stream cuda(Device::cuda());
  for (const CodeFormat format : {CodeFormat::kT2, CodeFormat::kT5}) {
    const std::vector<Case> cases = workers_of_one_draw(format);
    const std::vector<Bytes> found = payloads_on(cases, cuda);
    for (std::size_t k = 0; k < cases.size(); ++k) ASSERT_EQ(found[k], reference_payload(cases[k])) << k;
  }
}

TEST(TernaryModes, OfAWorkerWithoutStratumAreRefused) {
  Stream stream(Device::cpu(), 1);
  Case c{.gradient = {1}, .options = {.num_workers = 4, .rounding = Rounding::kStratified}};
  EXPECT_NO_THROW(payload_on(c, stream));  // worker 3 of the key
  c.worker = 1;
  EXPECT_THROW(payload_on(c, stream), InvalidArgument);
}

TEST(TernaryModes, ResolveTiesOfTheirSide) {
  // t = r16 + 1/2, with the scaler of the element's sign.
  constexpr std::size_t n = 5000;
  const auto r16 = reference::draws16({kKey.seed, kKey.step, kKey.worker, 1}, 128, n);
  Case c{.scalers = {1.0f, 4.0f}, .options = {.levels = TernaryLevels::kAsymmetric}};
  for (std::size_t i = 0; i < n; ++i) {
    const float t = (static_cast<float>(r16[i]) + 0.5f) / 65536.0f;
    c.gradient.push_back(i % 2 == 0 ? t : -4 * t);
  }
  const std::vector<std::int8_t> codes = reference_codes(c);
  EXPECT_GT(std::count(codes.begin(), codes.end(), 0), 2000);
  EXPECT_LT(std::count(codes.begin(), codes.end(), 0), 3000);
  testing::for_each_target([&](const std::string& target) {
    Stream stream(Device::cpu(), 1);
    EXPECT_EQ(payload_on(c, stream), reference_payload(c)) << target;
  });
}

TEST(TernaryModes, WriteGoldenBytes) {
  Stream stream(Device::cpu(), 1);
  // Elements of at least s / 2 are kept.
  Case c{.gradient = {0.5f, -0.5f, 0.4999999f, 3, -0.0f, -0.3f, -9, -2, 2, 0}, .scalers = {1.0f}};
  c.options.rounding = Rounding::kNearest;
  EXPECT_EQ(payload_on(c, stream), (Bytes{0x4d, 0xf0, 0x01, 0x00}));
  c.options.levels = TernaryLevels::kAsymmetric;
  c.scalers = {4.0f, 0.5f};
  EXPECT_EQ(payload_on(c, stream), (Bytes{0x4c, 0xfc, 0x01, 0x00}));
}

TEST(TernaryModes, OfEqualSidesAreSymmetric) {
  Stream stream(Device::cpu(), 1);
  for (const Rounding rounding : kRoundings) {
    Case c{.gradient = testing::gaussian(9000, 9), .options = {.rounding = rounding}};
    const Bytes symmetric = payload_on(c, stream);
    c.options.levels = TernaryLevels::kAsymmetric;
    c.scalers = {2.5f, 2.5f};
    EXPECT_EQ(payload_on(c, stream), symmetric);
  }
}

TEST(TernaryModes, OfTwoScalersHaveNoSums) {
  Stream stream(Device::cpu(), 1);
  Case c{.gradient = {1}, .scalers = {1, 1}};
  c.options = {.format = CodeFormat::kLanes, .levels = TernaryLevels::kAsymmetric};
  std::uint64_t word = 0;
  std::int64_t bytes = 0;
  const TernarizeTask task{.gradient = c.gradient.data(),
                           .count = 1,
                           .scalers = c.scalers.data(),
                           .payload = reinterpret_cast<std::uint8_t*>(&word)};
  EXPECT_THROW(ternarize({&task, 1}, c.options, kKey, {&bytes, 1}, stream), InvalidArgument);
}

/// Messages of three workers with two scalers each, and their mean on a stream's device.
struct SidedWorkers {
  explicit SidedWorkers(CodeFormat format) {
    for (std::uint64_t k = 0; k < 3; ++k) {
      Case c{.gradient = testing::gaussian(9003, 20 + k), .first = 4096, .block_elements = 192};
      c.options = {.format = format, .levels = TernaryLevels::kAsymmetric};
      c.scalers = testing::gaussian(static_cast<std::size_t>(2 * num_blocks(c.first, c.count(), 192)), 30 + k);
      for (float& s : c.scalers) s = std::fabs(s);
      cases.push_back(c);
    }
  }
  std::vector<float> mean_on(Stream& stream) const {
    std::vector<testing::GuardedArray<std::uint8_t>> payloads;
    std::vector<testing::GuardedArray<float>> scalers;
    std::vector<MeanLeaf> leaves;
    for (const Case& c : cases) {
      payloads.emplace_back(reference_payload(c), 0, stream);
      scalers.emplace_back(c.scalers, 0, stream);
      leaves.push_back({payloads.back().span(), scalers.back().data()});
    }
    testing::GuardedArray<float> out(std::vector<float>(cases[0].gradient.size()), 0, stream);
    TreeSummer summer(stream.device());
    MeanTask task{.format = leaf_format(cases[0].options.format),
                  .workers = leaves,
                  .first = 4096,
                  .count = cases[0].count(),
                  .block_elements = 192,
                  .scale = 1.0f / 3};
    task.out = out.data();
    task.two_scalers = true;
    summer.run({&task, 1}, stream);
    return out.values();
  }
  std::vector<float> expected_mean() const {
    std::vector<std::vector<std::int8_t>> codes;
    for (const Case& c : cases) codes.push_back(reference_codes(c));
    std::vector<float> result;
    for (std::size_t i = 0; i < codes[0].size(); ++i) {
      std::vector<float> column;
      for (std::size_t k = 0; k < cases.size(); ++k) {
        column.push_back(cases[k].scalers[scaler_of(cases[k], i)] * static_cast<float>(codes[k][i]));
      }
      result.push_back(reference::tree_sum(column) * (1.0f / 3));
    }
    return result;
  }
  std::vector<Case> cases;
};

/// Compares values, not bits: zeros may differ in sign.
void expect_equal_values(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], expected[i]) << i;
}

TEST(TernaryModes, OfTwoScalersAreAddedUp) {
  Stream stream(Device::cpu(), 2);
  for (const CodeFormat format : kFormats) {
    const SidedWorkers workers(format);
    expect_equal_values(workers.mean_on(stream), workers.expected_mean());
  }
}

TEST_F(CudaTernaryModes, OfTwoScalersAreAddedUpLikeOnTheCpu) {
  Stream cpu(Device::cpu(), 1);
  Stream cuda(Device::cuda());
  for (const CodeFormat format : kFormats) {
    if (!runs_on_gpus(format)) continue;
    const SidedWorkers workers(format);
    EXPECT_EQ(bits_of(workers.mean_on(cuda)), bits_of(workers.mean_on(cpu)));
  }
}

TEST(TernaryModes, OfTwoScalersAreTernary) {
  Stream stream(Device::cpu(), 1);
  const std::vector<std::uint8_t> payload(8);
  const float scalers[2] = {1, 1};
  const MeanLeaf leaf{.payload = payload, .scalers = scalers};
  float out[8];
  for (const LeafFormat format : {LeafFormat::kQ8, LeafFormat::kFloat32}) {
    const MeanTask task{.format = format, .workers = {&leaf, 1}, .count = 2, .out = out, .two_scalers = true};
    EXPECT_THROW(TreeSummer().run({&task, 1}, stream), InvalidArgument) << to_string(format);
  }
}

}  // namespace
}  // namespace terngrad::ternary_modes_test
