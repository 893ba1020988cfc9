#include "compress/codec/block_codec.h"

#include <utility>

#include "compress/codec/scaled_runs.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

BlockCodec::BlockCodec(std::string name, CodeFormat format, std::int64_t block_elements, int num_workers)
    : name_(std::move(name)), format_(format), block_elements_(block_elements) {
  require_block_elements(block_elements, name_.c_str());
  TERNGRAD_REQUIRE(num_workers >= 1, "[", name_, "] num_workers must be at least 1, got ", num_workers);
}

std::int64_t BlockCodec::num_scalers(std::int64_t num_elements) const {
  return num_block_scalers(num_elements, block_elements_);
}

Codec::ScalerRange BlockCodec::scaler_range(const Slice& slice) const {
  return block_scaler_range(slice, block_elements_);
}

std::int64_t BlockCodec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  return payload_bytes(format_, slice.count, 1);
}

std::optional<Codec::LeafForm> BlockCodec::leaf_form() const { return LeafForm{leaf_format(format_), block_elements_}; }

void BlockCodec::check(const EncodedSlice& encoded) const {
  if (encoded.format != static_cast<std::uint8_t>(format_)) {
    TERNGRAD_THROW(CommunicationError, "[", name_, "] format ", static_cast<int>(encoded.format), " of segment ",
                   encoded.slice.segment, " is not ", to_string(format_));
  }
  check_payload({format_, encoded.payload, encoded.slice.count, 1});
}

void BlockCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  const MeanTask task{.format = leaf_format(format_),
                      .first = encoded.slice.first,
                      .count = encoded.slice.count,
                      .block_elements = block_elements_};
  decode_leaf(task, {.payload = encoded.payload, .scalers = encoded.scalers.data()}, first, out);
}

}  // namespace terngrad
