// Rounding to powers of two.
#include "kernels/codes/exponents.h"

#include "bench/exponent_check.h"
#include "bench/subjects.h"

namespace terngrad::bench {

void register_exponents() { register_quantizers<ExponentQuantizer>(exponent_benches()); }

}  // namespace terngrad::bench
