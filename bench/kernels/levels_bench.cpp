// Quantizing to uniform levels, drawn and to nearest.
#include "kernels/codes/levels.h"

#include "bench/level_check.h"
#include "bench/subjects.h"

namespace terngrad::bench {

void register_levels() { register_quantizers<LevelQuantizer>(level_benches()); }

}  // namespace terngrad::bench
