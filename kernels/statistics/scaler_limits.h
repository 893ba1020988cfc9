// Range of valid scalers.
#pragma once

namespace terngrad {

/// Scalers below this count as 0 (all codes zero), so that 1 / s is always a normal float32.
inline constexpr float kMinScaler = 0x1p-86f;
/// Scalers above this count as non-finite.
inline constexpr float kMaxScaler = 0x1p126f;

}  // namespace terngrad
