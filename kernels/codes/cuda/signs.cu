// Signs on a GPU.
#include "kernels/codes/cuda/signs.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/quantize_kernel.cuh"

namespace terngrad::cuda {
namespace {

/// One bit per element: as bytes for lanes if `kBytes`, else in the low 8 bits of the first word.
template <bool kBytes>
struct SignRule {
  ZeroSign zeros;
  bool votes;
  bool two_scalers;
  std::int64_t columns;

  /// Expands eight bits to eight bytes.
  __device__ static uint2 spread(std::uint32_t bits) {
    // Copies of a nibble at distances of 7 bits put bit i at bit 8 i.
    const auto four = [](std::uint32_t nibble) { return nibble * 0x00204081u & 0x01010101u; };
    return {four(bits & 0xfu), four(bits >> 4)};
  }

  __device__ static bool pair_counts(const float* scalers, std::int64_t pair) {
    return __ldg(scalers + 2 * pair) > 0 || __ldg(scalers + 2 * pair + 1) > 0;
  }

  /// Mask of the used elements among eight.
  template <class Element>
  __device__ std::uint32_t counting(const QuantizeRun<Element>& run) const {
    if (!two_scalers) return run.scaler > 0 ? 0xffu : 0u;
    if (columns == 0) return pair_counts(run.scalers, run.scaler_index) ? 0xffu : 0u;
    std::uint32_t bits = 0;
    std::int64_t pair = run.position % columns;
#pragma unroll
    for (int i = 0; i < kRunElements; ++i) {
      bits |= (pair_counts(run.scalers, pair) ? 1u : 0u) << i;
      if (++pair == columns) pair = 0;
    }
    return bits;
  }

  template <class Element>
  __device__ uint2 codes(const float (&g)[kRunElements], const QuantizeRun<Element>& run, const DrawStream& stream,
                         std::uint32_t) const {
    // Runs begin at even positions, and draw offsets are even.
    const bool odd = ((run.step + run.worker + stream.worker) & 1u) != 0;
    const std::uint32_t of_zeros = zeros == ZeroSign::kAlternate ? (odd ? 0x55u : 0xaau) : 0u;
    std::uint32_t bits = 0;
#pragma unroll
    for (int i = 0; i < kRunElements; ++i) {
      const bool is_own = zeros == ZeroSign::kOwn && __float_as_uint(g[i]) >> 31 != 0;
      const bool is_negative = g[i] < 0 || is_own || (g[i] == 0 && (of_zeros >> i & 1u) != 0);
      bits |= (is_negative ? 1u : 0u) << i;
    }
    const std::uint32_t counted = counting(run);
    bits = (bits & counted) | (votes ? of_zeros & ~counted : 0u);
    if constexpr (kBytes) return spread(bits);
    return {bits, 0};
  }
};

class Runner final : public SignRunner {
 public:
  explicit Runner(const Device& device) : launcher_(device) {}

  void run(std::span<const QuantizeTask> tasks, ElementType type, const SignOptions& options, const DrawKey& key,
           const std::uint64_t* device_step, Stream& stream) override {
    const DrawPurpose refine = key.purpose;  // unused: there are no draws
    if (options.lanes) {
      const SignRule<true> rule = {options.zeros, options.votes, options.two_scalers, options.columns};
      launcher_.run<CodeFormat::kLanes>(tasks, type, rule, key, refine, device_step, stream,
                                        lane_bits(options.num_workers, 1));
    } else {
      const SignRule<false> rule = {options.zeros, options.votes, options.two_scalers, options.columns};
      launcher_.run<CodeFormat::kBits>(tasks, type, rule, key, refine, device_step, stream);
    }
  }

 private:
  QuantizeLauncher launcher_;
};

}  // namespace

std::shared_ptr<SignRunner> make_sign_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
