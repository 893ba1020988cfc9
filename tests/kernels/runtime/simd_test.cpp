#include "kernels/runtime/cpu/simd.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/runtime/errors.h"

namespace terngrad::simd_test {
namespace {

TEST(SimdTargets, AreThereAndHaveNamesOfTheirOwn) {
  const auto targets = cpu::simd_targets();
  ASSERT_FALSE(targets.empty());
  std::set<std::string> names;
  for (const auto& target : targets) {
    EXPECT_NE(target.id, 0);
    names.insert(target.name);
  }
  EXPECT_EQ(names.size(), targets.size());
}

TEST(SimdTargets, CanAllBeForced) {
  for (const auto& target : cpu::simd_targets()) EXPECT_NO_THROW(cpu::force_simd_target(target.name));
  cpu::force_simd_target("");
}

TEST(SimdTargets, AreListedInFullWhileOneIsForced) {
  const auto before = cpu::simd_targets();
  cpu::force_simd_target(before.back().name);
  EXPECT_EQ(cpu::simd_targets().size(), before.size());
  cpu::force_simd_target("");
}

TEST(ForceSimdTarget, RefusesAnUnknownNameAndNamesTheKnown) {
  try {
    cpu::force_simd_target("mmx");
    FAIL();
  } catch (const InvalidArgument& error) {
    EXPECT_NE(std::string(error.what()).find(cpu::simd_targets().front().name), std::string::npos);
  }
}

}  // namespace
}  // namespace terngrad::simd_test
