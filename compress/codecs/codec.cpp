#include "compress/codecs/codec.h"

#include "kernels/runtime/errors.h"

namespace terngrad {

SumForm Codec::sum_form() const { TERNGRAD_THROW(InvalidArgument, "[", name(), "] codes do not add up as integers"); }

void Codec::decode(const EncodedSlice& encoded, std::span<float> out) const {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == encoded.slice.count, "[", name(), "] out must hold ",
                   encoded.slice.count, " elements, holds ", out.size());
  decode_range(encoded, 0, out);
}

void check_scalers(const Codec& codec, const EncodedSlice& encoded) {
  const float max = codec.traits().max_scaler;
  for (const float scaler : encoded.scalers) {
    if (scaler >= 0 && scaler <= max) continue;
    TERNGRAD_THROW(CommunicationError, "[", codec.name(), "] scaler ", scaler, " of segment ", encoded.slice.segment,
                   " is none from 0 to ", max);
  }
}

}  // namespace terngrad
