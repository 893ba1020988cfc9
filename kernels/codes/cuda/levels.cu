// Uniform levels on a GPU.
#include "kernels/codes/cuda/levels.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/quantize_kernel.cuh"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad::cuda {
namespace {

/// Quantization rule of kernels/codes/levels.h. Codes are stored as code + L.
template <Rounding kRounding>
struct LevelRule {
  static constexpr bool kIsStratified = kRounding == Rounding::kStratified;
  float levels;  // L

  /// L + magnitude, or L - magnitude if g is negative.
  __device__ std::uint32_t signed_code(float g, std::uint32_t magnitude) const {
    const auto bias = static_cast<std::uint32_t>(levels);
    return __float_as_uint(g) >> 31 != 0 ? bias - magnitude : bias + magnitude;
  }

  /// min(fl(|g| factor), most); `most` if |g| >= s.
  __device__ static float level(float g, float scaler, float factor, float most) {
    return fabsf(g) < scaler ? fminf(fabsf(g) * factor, most) : most;
  }

  template <class Element>
  __device__ uint2 codes(const float (&g)[kRunElements], const QuantizeRun<Element>& run, const DrawStream& stream,
                         std::uint32_t refine_purpose) const {
    const float scaler = run.scaler;
    std::uint32_t words[2] = {0, 0};
    if (!(scaler >= kMinScaler)) {  // too small or NaN
      words[0] = words[1] = static_cast<std::uint32_t>(levels) * 0x01010101u;
      return {words[0], words[1]};
    }
    const float inverse = __fdiv_rn(levels, scaler);
    if constexpr (kRounding == Rounding::kNearest) {
#pragma unroll
      for (int i = 0; i < kRunElements; ++i) {
        // From 2^23 on float32 has no fractions: adding rounds, ties to even.
        const std::uint32_t rounded = __float_as_uint(level(g[i], scaler, inverse, levels) + 0x1p23f) & 0xffu;
        words[i / 4] |= signed_code(g[i], rounded) << (8 * (i % 4));
      }
      return {words[0], words[1]};
    }
    // A single multiplication replaces fl(|g| inv) * 65536: results differ only if the former underflows, and then only
    // in the resolution of ties. Its integer part is 65536 l + h.
    const float factor = inverse * 65536.0f;
    const float most = levels * 65536.0f;
    uint4 block = run.draws(stream);
    if constexpr (kIsStratified) block = draws_of(run.stratum, block);
    const std::uint32_t draws[4] = {block.x, block.y, block.z, block.w};
    std::uint32_t ties = 0;
#pragma unroll
    for (int i = 0; i < kRunElements; ++i) {
      std::uint32_t r16 = i % 2 == 0 ? draws[i / 2] & 0xffffu : draws[i / 2] >> 16;
      if (kIsStratified && __float_as_uint(g[i]) >> 31 != 0) r16 ^= 0xffffu;
      // l + 1 if r16 < h: adding 65535 - r16 to h then carries. Equal values tie and do not carry.
      const std::uint32_t sum = static_cast<std::uint32_t>(level(g[i], scaler, factor, most)) + (0xffffu - r16);
      if ((sum & 0xffffu) == 0xffffu) ties |= 1u << i;
      words[i / 4] |= signed_code(g[i], sum >> 16) << (8 * (i % 4));
    }
    for (; ties != 0; ties &= ties - 1) {
      const int i = __ffs(static_cast<int>(ties)) - 1;
      if (i >= run.count) break;
      const float value = run.value(i);
      if (fabsf(value) >= scaler) continue;  // already at the highest level
      const float t = fminf(fabsf(value) * inverse, levels);
      const float fraction = (t - floorf(t)) * 65536.0f;
      std::uint32_t refinement = run.refinement(stream, refine_purpose, i);
      if constexpr (kIsStratified) refinement = run.stratum.refinement(refinement, __float_as_uint(value) >> 31);
      if (static_cast<float>(refinement) >= (fraction - floorf(fraction)) * 0x1p24f) continue;
      // Changes the code's byte by one; this cannot carry into the next byte.
      const std::uint32_t one = 1u << (8 * (i % 4));
      const std::uint32_t change = __float_as_uint(value) >> 31 != 0 ? 0u - one : one;
      if (i < 4) {
        words[0] += change;
      } else {
        words[1] += change;
      }
    }
    return {words[0], words[1]};
  }
};

class Runner final : public LevelsRunner {
 public:
  explicit Runner(const Device& device) : launcher_(device) {}

  void run(std::span<const QuantizeTask> tasks, ElementType type, const LevelOptions& options, const DrawKey& key,
           const std::uint64_t* device_step, Stream& stream) override {
    switch (options.rounding) {
      case Rounding::kNearest:
        return run_rule<Rounding::kNearest>(tasks, type, options, key, device_step, stream);
      case Rounding::kStratified:
        return run_rule<Rounding::kStratified>(tasks, type, options, key, device_step, stream);
      case Rounding::kStochastic:
        return run_rule<Rounding::kStochastic>(tasks, type, options, key, device_step, stream);
    }
  }

 private:
  template <Rounding kRounding>
  void run_rule(std::span<const QuantizeTask> tasks, ElementType type, const LevelOptions& options, const DrawKey& key,
                const std::uint64_t* device_step, Stream& stream) {
    const LevelRule<kRounding> rule = {static_cast<float>(num_levels(options.bits))};
    const SharedDraws shared = {kRounding, options.num_workers};
    const DrawPurpose refine = options.refine_purpose;
    if (options.lanes) {
      const int bits = lane_bits(options.num_workers, 2 * num_levels(options.bits));
      launcher_.run<CodeFormat::kLanes>(tasks, type, rule, key, refine, device_step, stream, bits, shared);
    } else if (options.bits == 2) {
      launcher_.run<CodeFormat::kT2>(tasks, type, rule, key, refine, device_step, stream, 0, shared);
    } else if (options.bits == 4) {
      launcher_.run<CodeFormat::kQ4>(tasks, type, rule, key, refine, device_step, stream, 0, shared);
    } else {
      launcher_.run<CodeFormat::kQ8>(tasks, type, rule, key, refine, device_step, stream, 0, shared);
    }
  }

  QuantizeLauncher launcher_;
};

}  // namespace

std::shared_ptr<LevelsRunner> make_levels_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
