// Packing of signs on a GPU.
#include "kernels/codes/signs.h"

#include "bench/cuda_quantize_bench.h"
#include "bench/cuda_subjects.h"
#include "bench/sign_check.h"

namespace terngrad::bench {

void register_cuda_signs() { register_cuda_quantizers<SignPacker>(sign_benches()); }

}  // namespace terngrad::bench
