// Natural compression on a GPU.
#include "kernels/codes/cuda/exponents.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/quantize_kernel.cuh"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad::cuda {
namespace {

/// Exponent field of 2^-7 in float32, which corresponds to n4's code 0.
constexpr std::uint32_t kNarrowExponentBits = 120u << 23;
/// Value of n4's code 1.
constexpr float kMinNarrow = 0x1p-6f;

/// Quantization rule of kernels/codes/exponents.h.
template <unsigned kBits>
struct ExponentRule {
  static constexpr std::uint32_t kMagnitudes = (1u << (kBits - 1)) - 1;

  /// Adds the sign of g to the code, except for zero.
  __device__ static std::uint32_t with_sign(std::uint32_t code, float g) {
    return code == 0 ? 0 : code | (__float_as_uint(g) >> 31) << (kBits - 1);
  }

  /// y = min(fl(|g| inv), 1).
  __device__ static float scaled(float g, float inverse) { return fminf(fabsf(g) * inverse, 1.0f); }

  /// Code of the next lower power above 16 bits of the probability of rounding up.
  __device__ static std::uint32_t fixed(float y) {
    if constexpr (kBits == 8) return __float_as_uint(y) >> 7;
    return y < kMinNarrow ? static_cast<std::uint32_t>(y * 0x1p22f) : (__float_as_uint(y) - kNarrowExponentBits) >> 7;
  }

  /// Returns true if the refinement bits round up in case of a tie.
  __device__ static bool refines_up(float y, std::uint32_t refinement) {
    if (kBits == 4 && y < kMinNarrow) {
      const float probability = y * 0x1p22f;  // in units of 2^-16
      return static_cast<float>(refinement) < (probability - floorf(probability)) * 0x1p24f;
    }
    return refinement >> 17 < (__float_as_uint(y) & 127u);
  }

  template <class Element>
  __device__ uint2 codes(const float (&g)[kRunElements], const QuantizeRun<Element>& run, const DrawStream& stream,
                         std::uint32_t refine_purpose) const {
    std::uint32_t words[2] = {0, 0};
    if (!(run.scaler >= kMinScaler)) return {0, 0};  // too small or NaN
    const float inverse = __fdiv_rn(1.0f, run.scaler);
    const uint4 block = run.draws(stream);
    const std::uint32_t draws[4] = {block.x, block.y, block.z, block.w};
    std::uint32_t ties = 0;
#pragma unroll
    for (int i = 0; i < kRunElements; ++i) {
      const std::uint32_t r16 = i % 2 == 0 ? draws[i / 2] & 0xffffu : draws[i / 2] >> 16;
      // Rounds up if r16 is smaller: adding 65535 - r16 then carries. Equal values tie and do not carry.
      const std::uint32_t sum = fixed(scaled(g[i], inverse)) + (0xffffu - r16);
      if ((sum & 0xffffu) == 0xffffu) ties |= 1u << i;
      words[i / 4] |= with_sign(sum >> 16, g[i]) << (8 * (i % 4));
    }
    for (; ties != 0; ties &= ties - 1) {
      const int i = __ffs(static_cast<int>(ties)) - 1;
      if (i >= run.count) break;
      const float value = run.value(i);
      if (!refines_up(scaled(value, inverse), run.refinement(stream, refine_purpose, i))) continue;
      const unsigned shift = 8 * (static_cast<unsigned>(i) % 4);
      const std::uint32_t word = i < 4 ? words[0] : words[1];
      // A zero code has no sign yet.
      const std::uint32_t code = with_sign((word >> shift & kMagnitudes) + 1, value);
      const std::uint32_t changed = (word & ~(0xffu << shift)) | code << shift;
      if (i < 4) {
        words[0] = changed;
      } else {
        words[1] = changed;
      }
    }
    return {words[0], words[1]};
  }
};

class Runner final : public ExponentsRunner {
 public:
  explicit Runner(const Device& device) : launcher_(device) {}

  void run(std::span<const QuantizeTask> tasks, ElementType type, const ExponentOptions& options, const DrawKey& key,
           const std::uint64_t* device_step, Stream& stream) override {
    const DrawPurpose refine = options.refine_purpose;
    if (options.bits == 8) {
      launcher_.run<CodeFormat::kN8>(tasks, type, ExponentRule<8>(), key, refine, device_step, stream);
    } else {
      launcher_.run<CodeFormat::kN4>(tasks, type, ExponentRule<4>(), key, refine, device_step, stream);
    }
  }

 private:
  QuantizeLauncher launcher_;
};

}  // namespace

std::shared_ptr<ExponentsRunner> make_exponents_runner(const Device& device) {
  return std::make_shared<Runner>(device);
}

}  // namespace terngrad::cuda
