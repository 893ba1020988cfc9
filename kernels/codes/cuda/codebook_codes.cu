// Codebook codes on a GPU.
#include "kernels/codes/cuda/codebook_codes.h"

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/cuda/quantize_kernel.cuh"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad::cuda {
namespace {

/// Nearest level; kernels/codes/codebook_codes.h defines the code.
template <int kMagnitudes>
struct CodebookRule {
  Codebook codebook;

  template <class Element>
  __device__ uint2 codes(const float (&g)[kRunElements], const QuantizeRun<Element>& run, const DrawStream&,
                         std::uint32_t) const {
    if (!(run.scaler >= kMinScaler)) return {0, 0};  // too small or NaN
    std::uint32_t words[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < kRunElements; ++i) {
      std::uint32_t code = __float_as_uint(g[i]) >> 31 != 0 ? kMagnitudes : 0;
#pragma unroll
      for (int k = 0; k + 1 < kMagnitudes; ++k) code += fabsf(g[i]) >= codebook.thresholds[k] * run.scaler ? 1 : 0;
      words[i / 4] |= code << (8 * (i % 4));
    }
    return {words[0], words[1]};
  }
};

class Runner final : public CodebookRunner {
 public:
  explicit Runner(const Device& device) : launcher_(device) {}

  void run(std::span<const QuantizeTask> tasks, ElementType type, int levels, Stream& stream) override {
    const DrawKey key;  // unused: there are no draws
    const auto with = [&]<CodeFormat kFormat, int kMagnitudes>() {
      launcher_.run<kFormat>(tasks, type, CodebookRule<kMagnitudes>{codebook(levels)}, key, key.purpose, nullptr,
                             stream);
    };
    if (levels == 4) return with.operator()<CodeFormat::kE2, 2>();
    if (levels == 8) return with.operator()<CodeFormat::kE3, 4>();
    with.operator()<CodeFormat::kE4, 8>();
  }

 private:
  QuantizeLauncher launcher_;
};

}  // namespace

std::shared_ptr<CodebookRunner> make_codebook_runner(const Device& device) { return std::make_shared<Runner>(device); }

}  // namespace terngrad::cuda
