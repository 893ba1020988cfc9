// Divisor: division of indices by a launch-wide constant, by a multiplication and a shift.
#pragma once

#include <cstdint>

namespace terngrad::cuda {

/// Integer division by d, for which GPUs have no instruction. With s = ceil(log2 d) and
/// m = floor(2^32 (2^s - d) / d) + 1, floor(n / d) is (floor(n m / 2^32) + n) >> s for all n below 2^31 (Granlund and
/// Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994, figure 4.1).
class Divisor {
 public:
  Divisor() = default;
  /// @param divisor  in [1, 2^31)
  constexpr explicit Divisor(int divisor) : divisor_(static_cast<std::uint32_t>(divisor)) {
    while ((std::uint64_t{1} << shift_) < divisor_) ++shift_;
    multiplier_ = static_cast<std::uint32_t>((((std::uint64_t{1} << shift_) - divisor_) << 32) / divisor_ + 1);
  }

  constexpr int divisor() const { return static_cast<int>(divisor_); }
  /// floor(n / divisor), for n in [0, 2^31).
  constexpr int quotient(int n) const {
    const auto dividend = static_cast<std::uint32_t>(n);
    const auto high = static_cast<std::uint32_t>(std::uint64_t{dividend} * multiplier_ >> 32);
    return static_cast<int>((high + dividend) >> shift_);
  }
  constexpr int remainder(int n) const { return n - quotient(n) * divisor(); }

 private:
  std::uint32_t divisor_ = 1;
  std::uint32_t multiplier_ = 1;
  std::uint32_t shift_ = 0;
};

}  // namespace terngrad::cuda
