// What the stand-ins for cuDNN and cuBLASLt share. A test may make them behave like a library of another kind.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <string>

#include "nets/device_net.h"

namespace terngrad::testing {

/// How an operation for several slices relates to the one for a single slice.
enum class JointCalls {
  kSameBits,   // the same sums
  kOtherBits,  // sums in another order, as where a library cuts a larger operation into other parts
  kRefused,    // the library has no such call
};
inline JointCalls joint_calls = JointCalls::kSameBits;

/// What Libraries::why_missing says.
inline std::string missing_library;

/// A factor as tensor cores take it: with 10 bits of mantissa in TF32, rounded to nearest.
inline float factor(float value, MathMode math) {
  if (math == MathMode::kFp32) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

/// Submits work that a library would submit.
void submit(const Stream& stream, std::function<void()> work);

}  // namespace terngrad::testing
