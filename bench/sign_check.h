// What benchmarks of signs and votes have in common.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bench/quantize_bench.h"
#include "kernels/codes/signs.h"

namespace terngrad::bench {

inline constexpr std::size_t kVoters = 8;

/// Packing of signs, for both element types.
std::vector<QuantizeBench<SignOptions>> sign_benches();

/// Random bits of kVoters workers, payload_bytes(CodeFormat::kBits, n, 1) bytes each.
std::vector<std::vector<std::uint8_t>> random_signs(std::int64_t n);

/// Whether a mean is `scale` times the majority of these signs, on 65,536 elements spread over it.
bool votes_are_right(std::span<const std::vector<std::uint8_t>> signs, std::int64_t n, float scale, const float* mean);

}  // namespace terngrad::bench
