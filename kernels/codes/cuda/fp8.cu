// E4M3 on a GPU.
#include "kernels/codes/cuda/fp8.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/quantize_kernel.cuh"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad::cuda {
namespace {

/// Exponent field of 2^-7 in float32, the lower end of E4M3's exponents: subtracting it leaves code and fraction.
constexpr std::uint32_t kExponentBits = 120u << 23;
/// The smallest normal E4M3 number.
constexpr float kMinNormal = 0x1p-6f;

/// Quantization rule of kernels/codes/fp8.h.
struct Fp8Rule {
  bool is_nearest;

  /// Adds the sign of g to the code, except for zero.
  __device__ static std::uint32_t with_sign(std::uint32_t code, float g) {
    return code == 0 ? 0 : code | (__float_as_uint(g) >> 31) << 7;
  }

  /// x = min(fl(|g| inv), 448).
  __device__ static float scaled(float g, float inverse) { return fminf(fabsf(g) * inverse, kMaxE4M3); }

  __device__ static std::uint32_t nearest(float x) {
    // At 2^14 the unit in the last place of float32 is 2^-9, E4M3's smallest number: adding rounds, ties to even.
    if (x < kMinNormal) return __float_as_uint(x + 0x1p14f) - __float_as_uint(0x1p14f);
    const std::uint32_t bits = __float_as_uint(x) - kExponentBits;
    return (bits + (bits >> 20 & 1u) + 0x7ffffu) >> 20;
  }

  template <class Element>
  __device__ uint2 codes(const float (&g)[kRunElements], const QuantizeRun<Element>& run, const DrawStream& stream,
                         std::uint32_t refine_purpose) const {
    std::uint32_t words[2] = {0, 0};
    if (!(run.scaler >= kMinScaler)) return {0, 0};  // too small or NaN
    const float inverse = __fdiv_rn(1.0f, run.scaler);
    if (is_nearest) {
#pragma unroll
      for (int i = 0; i < kRunElements; ++i) {
        words[i / 4] |= with_sign(nearest(scaled(g[i], inverse)), g[i]) << (8 * (i % 4));
      }
      return {words[0], words[1]};
    }
    const uint4 block = run.draws(stream);
    const std::uint32_t draws[4] = {block.x, block.y, block.z, block.w};
    std::uint32_t ties = 0;
#pragma unroll
    for (int i = 0; i < kRunElements; ++i) {
      const std::uint32_t r16 = i % 2 == 0 ? draws[i / 2] & 0xffffu : draws[i / 2] >> 16;
      const float x = scaled(g[i], inverse);
      // The lower number's code above 16 bits of the fraction between it and the next.
      const std::uint32_t fixed =
          x < kMinNormal ? static_cast<std::uint32_t>(x * 0x1p25f) : (__float_as_uint(x) - kExponentBits) >> 4;
      // Rounds up if r16 < h: adding 65535 - r16 to h then carries. Equal values tie and do not carry.
      const std::uint32_t sum = fixed + (0xffffu - r16);
      if ((sum & 0xffffu) == 0xffffu) ties |= 1u << i;
      words[i / 4] |= with_sign(sum >> 16, g[i]) << (8 * (i % 4));
    }
    for (; ties != 0; ties &= ties - 1) {
      const int i = __ffs(static_cast<int>(ties)) - 1;
      if (i >= run.count) break;
      const float value = run.value(i);
      const float x = scaled(value, inverse);
      const std::uint32_t refinement = run.refinement(stream, refine_purpose, i);
      if (x >= kMinNormal) {
        if (refinement >= (__float_as_uint(x) & 15u) << 20) continue;
      } else {
        const float fraction = x * 0x1p25f;  // 65536 times the number of steps of 2^-9
        if (static_cast<float>(refinement) >= (fraction - floorf(fraction)) * 0x1p24f) continue;
      }
      const unsigned shift = 8 * (static_cast<unsigned>(i) % 4);
      const std::uint32_t word = i < 4 ? words[0] : words[1];
      // A zero code has no sign yet.
      const std::uint32_t code = with_sign((word >> shift & 0x7fu) + 1, value);
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

class Runner final : public Fp8Runner {
 public:
  explicit Runner(const Device& device) : launcher_(device) {}

  void run(std::span<const QuantizeTask> tasks, ElementType type, const Fp8Options& options, const DrawKey& key,
           const std::uint64_t* device_step, Stream& stream) override {
    const Fp8Rule rule = {options.rounding == Rounding::kNearest};
    launcher_.run<CodeFormat::kE4M3>(tasks, type, rule, key, options.refine_purpose, device_step, stream);
  }

 private:
  QuantizeLauncher launcher_;
};

}  // namespace

std::shared_ptr<Fp8Runner> make_fp8_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
