// Runs code with each SIMD target of this machine.
#pragma once

#include <string>
#include <utility>

#include "kernels/runtime/cpu/simd.h"

namespace terngrad::testing {

/// Forces a SIMD target; the destructor restores the best one.
class ForcedTarget {
 public:
  explicit ForcedTarget(const std::string& name) { cpu::force_simd_target(name); }
  ~ForcedTarget() { cpu::force_simd_target(""); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;
};

/// Calls body(target name) while that target is forced.
template <class Body>
void for_each_target(const Body& body) {
  for (const cpu::SimdTarget& target : cpu::simd_targets()) {
    const ForcedTarget forced(target.name);
    body(target.name);
  }
}

}  // namespace terngrad::testing
