// CUDA backend stub for builds without CUDA: there is no device, so none of these functions can be reached.
#include "kernels/runtime/cuda/not_built.h"
#include "kernels/tensor/cuda/averaged_residual.h"
#include "kernels/tensor/cuda/bfloat16.h"
#include "kernels/tensor/cuda/float16.h"
#include "kernels/tensor/cuda/memory_update.h"
#include "kernels/tensor/cuda/transform.h"

namespace terngrad::cuda {

void find_nonfinite(std::span<const float>, std::uint32_t*, const Stream&) { not_built("find_nonfinite"); }
void zero_nonfinite(std::span<float>, std::int64_t*, const Stream&) { not_built("zero_nonfinite"); }
void scale(std::span<float>, float, const float*, const Stream&) { not_built("scale"); }
void multiply(std::span<const float>, std::span<const float>, std::span<float>, const Stream&) {
  not_built("multiply");
}
void compensate(const CompensateTask&, float, float, const Stream&) { not_built("compensate"); }
void compensate(const AveragedCompensateTask&, const ResidualAverage&, const Stream&) { not_built("compensate"); }
void update_residual(const AveragedResidualTask&, const ResidualAverage&, const Stream&) {
  not_built("update_residual");
}
void accumulate(const AccumulateTask&, float, bool, const Stream&) { not_built("accumulate"); }
void update_memory(const MemoryUpdateTask&, const Stream&) { not_built("update_memory"); }
void encode_bfloat16(std::span<const float>, std::span<std::uint16_t>, const Stream&) { not_built("encode_bfloat16"); }
void decode_bfloat16(std::span<const std::uint16_t>, std::span<float>, const Stream&) { not_built("decode_bfloat16"); }
void round_to_bfloat16(std::span<float>, const Stream&) { not_built("round_to_bfloat16"); }
void encode_float16(std::span<const float>, std::span<std::uint16_t>, const Stream&) { not_built("encode_float16"); }
void decode_float16(std::span<const std::uint16_t>, std::span<float>, const Stream&) { not_built("decode_float16"); }
void round_to_float16(std::span<float>, const Stream&) { not_built("round_to_float16"); }

}  // namespace terngrad::cuda
