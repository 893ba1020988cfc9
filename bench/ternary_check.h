// Checks ternary codes against the definition of the draw, element by element.
#pragma once

#include <span>

#include "kernels/codes/rounding.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/random/philox.h"

namespace terngrad::bench {

/// True if the codes of a gradient with one scaler are the definition's, on 65,536 elements spread over it.
/// @param codes        num_workers: of lanes, or those who share draws (kStratified)
/// @param draw_offset  draw offset of the first element
bool codes_are_right(const PackedCodes& codes, std::span<const float> gradient, float scaler, const DrawKey& key,
                     std::uint64_t draw_offset = 0, Rounding rounding = Rounding::kStochastic);

}  // namespace terngrad::bench
