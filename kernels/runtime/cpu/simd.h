// Which SIMD targets kernels are compiled for, and how tests and benches choose among those that the machine has.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terngrad::cpu {

/// A SIMD instruction set that kernels were compiled for: "scalar", "sse4", "avx2", "avx3" (AVX-512)
struct SimdTarget {
  std::string name;
  std::int64_t id = 0;
};

/// The targets that kernels were compiled for and this machine can run, best first.
std::vector<SimdTarget> simd_targets();

/// Makes kernels use `target` only, until called with an empty name, which restores the best. For tests and benches:
/// results are bit-equal on all of them (contract B1). Not to be called while kernels run.
/// @throws InvalidArgument for a target this machine cannot run
void force_simd_target(const std::string& name);

}  // namespace terngrad::cpu
