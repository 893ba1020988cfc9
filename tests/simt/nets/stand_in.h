// Shared by the stand-ins for cuDNN and cuBLASLt, whose behaviour tests can change.
#pragma once

#include <bit>
#include <cstdint>
#include <functional>
#include <string>

#include "nets/device_net.h"

namespace terngrad::testing {

/// Behaviour of a library call for several slices, compared with calls for single slices.
enum class JointCalls {
  kSameBits,   // bit-identical
  kOtherBits,  // other order of additions, as if the library split the larger operation differently
  kRefused,    // not supported
};
inline JointCalls joint_calls = JointCalls::kSameBits;

/// Result of Libraries::why_missing.
inline std::string missing_library;

/// A factor as tensor cores see it: rounded to 10 mantissa bits for TF32.
inline float factor(float value, MathMode math) {
  if (math == MathMode::kFp32) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

/// Submits work to the stream as a library would.
void submit(const Stream& stream, std::function<void()> work);

}  // namespace terngrad::testing
