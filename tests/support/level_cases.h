// Slices to quantize to uniform levels, a plain reference of the codes, and the kernels run on them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/codes/levels.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/tensor/bfloat16.h"
#include "kernels/tensor/float16.h"
#include "support/gradients.h"
#include "support/guarded_array.h"
#include "support/reference.h"

namespace terngrad::testing {

inline const DrawKey kLevelKey{0x0123456789abcdef, 42, 3, DrawPurpose::kQuantize};
/// Of a task with worker 5.
inline const reference::Stream kLevelStream{0x0123456789abcdef, 42, 8, 10};

/// Every kind of output.
inline const LevelOptions kLevelForms[] = {
    {.bits = 4},
    {.bits = 8},
    {.bits = 4, .rounding = Rounding::kNearest},
    {.bits = 8, .rounding = Rounding::kNearest},
    {.bits = 2, .rounding = Rounding::kNearest},
    {.bits = 2},
    {.bits = 4, .lanes = true, .num_workers = 3},
    {.bits = 8, .lanes = true, .num_workers = 1000},
    {.bits = 2, .lanes = true, .num_workers = 1, .rounding = Rounding::kNearest},
};

/// One slice with everything that it points to, in host memory.
struct LevelCase {
  std::vector<float> gradient = {};
  std::vector<float> scalers = {2.5f};
  std::int64_t first = 0;
  std::int64_t draw_offset = 128;
  std::int64_t block_elements = 0;
  std::uint32_t worker = 5;
  LevelOptions options = {};
  DrawKey key = kLevelKey;
  int num_threads = 1;
  std::size_t misalignment = 0;  // of the gradient, in elements
  ElementType type = ElementType::kFloat32;
  std::vector<std::uint16_t> narrow = {};  // the elements if they have 16 bits

  std::int64_t count() const { return static_cast<std::int64_t>(gradient.size()); }
  CodeFormat format() const { return options.lanes ? CodeFormat::kLanes : level_format(options.bits); }
  int lane_levels() const { return 2 * num_levels(options.bits); }
  std::int64_t bytes() const { return payload_bytes(format(), count(), options.num_workers, lane_levels()); }
  std::string text() const {
    return std::to_string(options.bits) + " bits" + (options.lanes ? " in lanes" : "") +
           (options.rounding == Rounding::kNearest ? ", nearest" : "") + ", " + std::to_string(count());
  }

  /// Makes the elements those of a narrow type.
  void round_gradient_to(ElementType narrow_type) {
    type = narrow_type;
    for (float& g : gradient) {
      const bool is_bfloat16 = type == ElementType::kBfloat16;
      narrow.push_back(is_bfloat16 ? to_bfloat16(g) : to_float16(g));
      g = is_bfloat16 ? reference::from_bfloat16(narrow.back()) : reference::from_float16(narrow.back());
    }
  }
};

/// The code of one element, in the words of the definition.
inline int reference_level(float g, float s, int levels, bool is_nearest, std::uint32_t r16, std::uint32_t r24) {
  if (std::isnan(s) || s < 0x1p-86f) return 0;
  const auto most = static_cast<float>(levels);
  const float magnitude = std::fabs(g);
  int code = levels;
  if (magnitude < s) {
    const float inverse = most / s;
    const float scaled = magnitude * inverse;
    const float t = scaled < most ? scaled : most;
    if (is_nearest) {
      code = static_cast<int>(std::lrint(t));
    } else {
      const float l = std::floor(t);
      const float f = t - l;
      const float scaled_fraction = f * 65536.0f;
      const float h = std::floor(scaled_fraction);
      const auto r = static_cast<float>(r16);
      const bool up = r < h || (r == h && static_cast<float>(r24) < (scaled_fraction - h) * 16777216.0f);
      code = static_cast<int>(l) + (up ? 1 : 0);
    }
  }
  return std::signbit(g) ? -code : code;
}

inline std::vector<int> reference_levels(const LevelCase& c) {
  const reference::Stream stream{c.key.seed, c.key.step, c.key.worker + c.worker,
                                 static_cast<std::uint32_t>(c.key.purpose)};
  reference::Stream refine = stream;
  refine.purpose = static_cast<std::uint32_t>(c.options.refine_purpose);
  const auto first_draw = static_cast<std::uint64_t>(c.draw_offset + c.first);
  const std::vector<std::uint32_t> r16 = reference::draws16(stream, first_draw, c.gradient.size());
  const int levels = num_levels(c.options.bits);
  const bool is_nearest = c.options.rounding == Rounding::kNearest;
  std::vector<int> codes;
  for (std::size_t i = 0; i < c.gradient.size(); ++i) {
    const auto at = c.first + static_cast<std::int64_t>(i);
    const std::int64_t block = c.block_elements == 0 ? 0 : at / c.block_elements - c.first / c.block_elements;
    const float s = c.scalers[static_cast<std::size_t>(block)];
    // The refinement decides only where the code differs for its two extremes.
    const int low = reference_level(c.gradient[i], s, levels, is_nearest, r16[i], 0xffffff);
    const int high = reference_level(c.gradient[i], s, levels, is_nearest, r16[i], 0);
    codes.push_back(low == high ? low
                                : reference_level(c.gradient[i], s, levels, is_nearest, r16[i],
                                                  reference::draw24(refine, first_draw + i)));
  }
  return codes;
}

/// Codes as the format of the options stores them.
inline reference::Bytes pack_levels(std::span<const int> codes, const LevelOptions& options) {
  const int levels = num_levels(options.bits);
  if (options.lanes) return reference::pack_lanes(codes, levels, options.num_workers, 2 * levels);
  const std::vector<std::int8_t> narrow(codes.begin(), codes.end());
  return options.bits == 2 ? reference::pack_t2(narrow) : reference::pack_levels(narrow, options.bits);
}

inline reference::Bytes reference_payload(const LevelCase& c) { return pack_levels(reference_levels(c), c.options); }

/// Cases of equal options and element types, as one call on a stream's device quantizes them.
inline std::vector<reference::Bytes> quantized_together(std::span<const LevelCase> cases, LevelQuantizer& quantizer,
                                                        Stream& stream, const std::uint64_t* device_step = nullptr) {
  std::vector<GuardedArray<float>> wide;
  std::vector<GuardedArray<std::uint16_t>> narrow;
  std::vector<GuardedArray<float>> scalers;
  std::vector<GuardedArray<std::uint64_t>> payloads;
  std::vector<QuantizeTask> tasks;
  for (const LevelCase& c : cases) {
    wide.emplace_back(c.narrow.empty() ? std::span<const float>(c.gradient) : std::span<const float>(), c.misalignment,
                      stream);
    narrow.emplace_back(c.narrow, c.misalignment, stream);
    scalers.emplace_back(c.scalers, 0, stream);
    const auto words = static_cast<std::size_t>(c.bytes() + 7) / 8;
    payloads.emplace_back(std::vector<std::uint64_t>(words, 0xa5a5a5a5a5a5a5a5u), 0, stream);
    tasks.push_back({.gradient = c.narrow.empty() ? static_cast<const void*>(wide.back().data())
                                                  : static_cast<const void*>(narrow.back().data()),
                     .first = c.first,
                     .count = c.count(),
                     .draw_offset = c.draw_offset,
                     .block_elements = c.block_elements,
                     .scalers = scalers.back().data(),
                     .payload = reinterpret_cast<std::uint8_t*>(payloads.back().data()),
                     .worker = c.worker,
                     .type = c.type});
  }
  quantizer.run(tasks, cases.front().options, cases.front().key, stream, device_step);
  std::vector<reference::Bytes> result;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::vector<std::uint64_t> words = payloads[i].values();
    const auto* begin = reinterpret_cast<const std::uint8_t*>(words.data());
    result.emplace_back(begin, begin + cases[i].bytes());
    // A payload of an odd number of 32-bit words leaves the rest of the last 64 bits as they were.
    if (cases[i].bytes() % 8 == 4) {
      EXPECT_EQ(words.back() >> 32, 0xa5a5a5a5u) << cases[i].text() << ": wrote behind the payload";
    }
  }
  return result;
}

inline std::vector<reference::Bytes> quantized_together(std::span<const LevelCase> cases, int num_threads) {
  Stream stream(Device::cpu(), num_threads);
  LevelQuantizer quantizer;
  return quantized_together(cases, quantizer, stream);
}

inline reference::Bytes quantized_on_cpu(const LevelCase& c) {
  return quantized_together({&c, 1}, c.num_threads).front();
}

/// The codes of a payload that is not lanes.
inline std::vector<std::int16_t> unpacked(const reference::Bytes& payload, const LevelCase& c) {
  const PackedCodes codes{c.format(), payload, c.count()};
  check_payload(codes);
  std::vector<std::int16_t> out(c.gradient.size());
  unpack_codes(codes, 0, out);
  return out;
}

}  // namespace terngrad::testing
