// What benchmarks of signs and votes have in common.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/codes/signs.h"

namespace terngrad::bench {

inline constexpr std::size_t kVoters = 8;

/// Whether bits are the signs of a gradient with a scaler, of worker 0 in step 1, on 65,536 elements spread over it.
bool signs_are_right(std::span<const std::uint8_t> payload, std::int64_t n, const float* gradient);

/// Random bits of kVoters workers, payload_bytes(CodeFormat::kBits, n, 1) bytes each.
std::vector<std::vector<std::uint8_t>> random_signs(std::int64_t n);

/// Whether a mean is `scale` times the majority of these signs, on 65,536 elements spread over it.
bool votes_are_right(std::span<const std::vector<std::uint8_t>> signs, std::int64_t n, float scale, const float* mean);

}  // namespace terngrad::bench
