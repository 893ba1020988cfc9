// Packing of signs.
#include "kernels/codes/signs.h"

#include "bench/sign_check.h"
#include "bench/subjects.h"

namespace terngrad::bench {

void register_signs() { register_quantizers<SignPacker>(sign_benches()); }

}  // namespace terngrad::bench
