// Rounding to powers of two on a GPU.
#include "kernels/codes/exponents.h"

#include "bench/cuda_quantize_bench.h"
#include "bench/cuda_subjects.h"
#include "bench/exponent_check.h"

namespace terngrad::bench {

void register_cuda_exponents() { register_cuda_quantizers<ExponentQuantizer>(exponent_benches()); }

}  // namespace terngrad::bench
