// Unpacking of codes and addition of lanes on a GPU.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/device.h"

namespace terngrad::cuda {

/// As in kernels/codes/ternary_pack.h, which has checked the arguments; all spans are device memory.
void unpack_codes(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out, const Stream& stream);
void add_lanes(std::span<std::uint64_t> lanes, std::span<const std::uint64_t> other, const Stream& stream);

}  // namespace terngrad::cuda
