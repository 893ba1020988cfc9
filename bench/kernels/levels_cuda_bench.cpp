// Quantizing to uniform levels on a GPU.
#include "kernels/codes/levels.h"

#include "bench/cuda_quantize_bench.h"
#include "bench/cuda_subjects.h"
#include "bench/level_check.h"

namespace terngrad::bench {

void register_cuda_levels() { register_cuda_quantizers<LevelQuantizer>(level_benches()); }

}  // namespace terngrad::bench
