// Quantizing to FP8 on a GPU.
#include "kernels/codes/fp8.h"

#include "bench/cuda_quantize_bench.h"
#include "bench/cuda_subjects.h"
#include "bench/fp8_check.h"

namespace terngrad::bench {

void register_cuda_fp8() { register_cuda_quantizers<Fp8Quantizer>(fp8_benches()); }

}  // namespace terngrad::bench
