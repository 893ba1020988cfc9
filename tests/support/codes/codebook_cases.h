// Test slices for quantization to the levels of a codebook, and a scalar reference of the codes.
#pragma once

#include <cmath>
#include <string>

#include "kernels/codes/codebook_codes.h"
#include "support/codes/quantize_cases.h"

namespace terngrad::testing {

struct CodebookOptions {
  int levels = 4;
};

/// CodebookQuantizer with the arguments of quantizers that draw.
class AnyCodebookQuantizer {
 public:
  explicit AnyCodebookQuantizer(Device device = Device::cpu()) : quantizer_(device) {}
  void run(std::span<const QuantizeTask> tasks, const CodebookOptions& options, const DrawKey&, Stream& stream,
           const std::uint64_t* = nullptr) {
    quantizer_.run(tasks, options.levels, stream);
  }

 private:
  CodebookQuantizer quantizer_;
};

template <>
struct QuantizerTraits<CodebookOptions> {
  using Quantizer = AnyCodebookQuantizer;
  static constexpr float kScaler = 0.01f;
  static CodeFormat format(const CodebookOptions& options) { return codebook_format(options.levels); }
  static LaneForm lanes(const CodebookOptions&) { return {}; }
  static std::string text(const CodebookOptions& options) { return std::to_string(options.levels) + " levels"; }
};

using CodebookCase = QuantizeCase<CodebookOptions>;

inline reference::Bytes reference_payload(const CodebookCase& c) {
  const Codebook book = codebook(c.options.levels);
  const auto bits = static_cast<std::size_t>(codebook_bits(c.format()));
  reference::Bytes bytes(static_cast<std::size_t>(c.bytes()), 0);
  for (std::size_t i = 0; i < c.gradient.size(); ++i) {
    const auto at = c.first + static_cast<std::int64_t>(i);
    const std::int64_t block = c.block_elements == 0 ? 0 : at / c.block_elements - c.first / c.block_elements;
    const float unit = c.scalers[static_cast<std::size_t>(block)];
    unsigned code = 0;
    if (unit >= 0x1p-86f) {
      while (static_cast<int>(code) + 1 < book.num_magnitudes &&
             std::fabs(c.gradient[i]) >= book.thresholds[code] * unit)
        ++code;
      if (std::signbit(c.gradient[i])) code += static_cast<unsigned>(book.num_magnitudes);
    }
    for (std::size_t bit = 0; bit < bits; ++bit) {
      const std::size_t place = i * bits + bit;
      bytes[place / 8] = static_cast<std::uint8_t>(bytes[place / 8] | (code >> bit & 1u) << (place % 8));
    }
  }
  return bytes;
}

}  // namespace terngrad::testing
