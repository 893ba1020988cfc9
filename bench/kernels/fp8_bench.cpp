// Quantizing to FP8, to nearest and drawn.
#include "kernels/codes/fp8.h"

#include "bench/fp8_check.h"
#include "bench/subjects.h"

namespace terngrad::bench {

void register_fp8() { register_quantizers<Fp8Quantizer>(fp8_benches()); }

}  // namespace terngrad::bench
