// SIMD targets of the CPU kernels, and how tests and benches select one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace terngrad::cpu {

/// A SIMD instruction set that kernels were compiled for: "scalar", "sse4", "avx2", "avx3" (AVX-512).
struct SimdTarget {
  std::string name;
  std::int64_t id = 0;
};

/// Compiled targets that this machine can run, best first.
std::vector<SimdTarget> simd_targets();

/// Restricts kernels to `target`; an empty name restores the best target. For tests and benches: results are bit-equal
/// on all targets (contract B1). Not thread-safe: do not call it while kernels run.
/// @throws InvalidArgument for a target that this machine cannot run
void force_simd_target(const std::string& name);

}  // namespace terngrad::cpu
