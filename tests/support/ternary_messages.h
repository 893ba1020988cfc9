// Reference codes and scalers of the ternary codec.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codecs/ternary_codec.h"
#include "support/codec_messages.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::testing {

inline constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                             TernaryFormat::kTrans};

inline std::vector<std::int8_t> reference_codes(const TernaryCodec& codec, const Layout& layout, const Tensors& tensors,
                                                std::uint32_t worker, int segment, std::span<const float> scalers,
                                                std::span<const float> clips = {}) {
  const reference::Run run{0, static_cast<std::uint64_t>(layout.segment(segment).draw_offset),
                           codec.kernel_block_elements(), 2};
  return reference::ternarize(tensors.values[static_cast<std::size_t>(segment)], run, scalers, clips,
                              {kSeed, kStep, worker, 1});
}

inline float reference_scaler(std::span<const float> values, double c, bool original = false) {
  return reference::scaler(reference::statistics(values), static_cast<std::int64_t>(values.size()), c, original);
}

}  // namespace terngrad::testing
