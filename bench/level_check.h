// What benchmarks of uniform levels have in common: which there are, and a check against the definition.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/codes/levels.h"
#include "kernels/tensor/philox.h"

namespace terngrad::bench {

inline constexpr LevelOptions kLevelBenches[] = {
    {.bits = 4},
    {.bits = 4, .rounding = Rounding::kNearest},
    {.bits = 8},
    {.bits = 8, .rounding = Rounding::kNearest},
    {.bits = 4, .lanes = true, .num_workers = 8},
};

/// "quantize_q4", "quantize_q4_nearest", "quantize_lanes" and the like.
std::string level_bench_name(const LevelOptions& options);
/// Bytes of a payload of n codes.
std::int64_t level_bytes(std::int64_t n, const LevelOptions& options);

/// Whether the codes of a gradient with one scaler and draw offset 0 are those that the definition gives, on 65,536
/// elements spread over it.
bool levels_are_right(std::span<const std::uint8_t> payload, std::int64_t n, const LevelOptions& options,
                      const float* gradient, float scaler, const DrawKey& key);

}  // namespace terngrad::bench
