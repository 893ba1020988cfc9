#include "compress/codecs/float_codecs.h"

#include <algorithm>
#include <cstring>

#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"

namespace terngrad {
namespace {

using Width = FloatCodec::Width;

void read_elements(Width width, const std::uint8_t* payload, std::int64_t first, std::span<float> out) {
  if (width == Width::kFloat32) {
    if (!out.empty()) std::memcpy(out.data(), payload + 4 * first, out.size_bytes());
    return;
  }
  const auto* values = reinterpret_cast<const std::uint16_t*>(payload) + first;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = from_bfloat16(values[i]);
}

}  // namespace

FloatCodec::FloatCodec(Width width, int num_workers) : width_(width), num_workers_(num_workers) {
  TERNGRAD_REQUIRE(num_workers >= 1, "[float] num_workers must be at least 1, got ", num_workers);
}

std::uint32_t FloatCodec::first_nonfinite(Width width) {
  // Values that round up to infinity count as not finite.
  return width == Width::kBfloat16 ? kFirstInfiniteBfloat16 : 0x7f800000u;
}

const std::string& FloatCodec::name() const {
  static const std::string fp32 = "fp32";
  static const std::string bf16 = "bf16";
  return width_ == Width::kFloat32 ? fp32 : bf16;
}

CodecTraits FloatCodec::traits() const {
  return {.bits_per_element = width_ == Width::kFloat32 ? 32.0 : 16.0,
          .fixed_size = true,
          .max_scaler = 0,
          .unbiased = width_ == Width::kFloat32,
          .is_exact = width_ == Width::kFloat32,
          .wants_error_feedback = false,
          .summable = false,
          .sums_as_float = true};
}

std::string FloatCodec::options_text() const { return "workers=" + std::to_string(num_workers_); }

std::int64_t FloatCodec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  return (slice.count * (width_ == Width::kFloat32 ? 4 : 2) + 3) / 4 * 4;
}

std::optional<Codec::LeafForm> FloatCodec::leaf_form() const {
  return LeafForm{width_ == Width::kFloat32 ? LeafFormat::kFloat32 : LeafFormat::kBfloat16};
}

void FloatCodec::check(const EncodedSlice& encoded) const {
  const std::int64_t expected = max_payload_bytes(encoded.slice, PayloadForm::kNatural);
  if (encoded.format != 0 || static_cast<std::int64_t>(encoded.payload.size()) != expected) {
    TERNGRAD_THROW(CommunicationError, "[", name(), "] payload of segment ", encoded.slice.segment, " has ",
                   encoded.payload.size(), " bytes in format ", static_cast<int>(encoded.format), ", expected ",
                   expected, " in format 0");
  }
  const std::size_t used = static_cast<std::size_t>(encoded.slice.count) * (width_ == Width::kFloat32 ? 4 : 2);
  const auto padding = encoded.payload.subspan(used);
  if (std::ranges::all_of(padding, [](std::uint8_t byte) { return byte == 0; })) return;
  TERNGRAD_THROW(CommunicationError, "[", name(), "] payload of segment ", encoded.slice.segment,
                 " is filled up with other bytes than zeros");
}

void FloatCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  read_elements(width_, encoded.payload.data(), first, out);
}

}  // namespace terngrad
