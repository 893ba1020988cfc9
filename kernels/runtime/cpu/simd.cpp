#include "kernels/runtime/cpu/simd.h"

#include <hwy/highway.h>

#include <algorithm>

#include "kernels/runtime/errors.h"

namespace terngrad::cpu {

std::vector<SimdTarget> simd_targets() {
  hwy::SetSupportedTargetsForTest(0);
  std::vector<SimdTarget> result;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    std::string name = hwy::TargetName(target);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
    result.push_back({name, target});
  }
  return result;
}

void force_simd_target(const std::string& name) {
  std::int64_t id = 0;
  if (!name.empty()) {
    std::string known;
    for (const SimdTarget& target : simd_targets()) {
      if (target.name == name) id = target.id;
      known += " " + target.name;
    }
    TERNGRAD_REQUIRE(id != 0, "[simd] this machine cannot run target '", name, "'; it can run:", known);
  }
  hwy::SetSupportedTargetsForTest(id);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace terngrad::cpu
