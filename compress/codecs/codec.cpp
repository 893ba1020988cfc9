#include "compress/codecs/codec.h"

#include "kernels/runtime/errors.h"

namespace terngrad {

SumForm Codec::sum_form() const { TERNGRAD_THROW(InvalidArgument, "[", name(), "] codes do not add up as integers"); }

void Codec::decode(const EncodedSlice& encoded, std::span<float> out) const {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == encoded.slice.count, "[", name(), "] out must hold ",
                   encoded.slice.count, " elements, holds ", out.size());
  decode_range(encoded, 0, out);
}

bool shares_scalers(const Codec& codec) {
  return codec.sharing() != ScalerSharing::kNone && codec.traits().max_scaler > 0;
}

bool may_return_codes(const Codec& codec) { return codec.traits().summable || codec.traits().max_scaler == 0; }

void check_scalers(const Codec& codec, const EncodedSlice& encoded) {
  const float max = codec.traits().max_scaler;
  for (const float scaler : encoded.scalers) {
    if (scaler >= 0 && scaler <= max) continue;
    TERNGRAD_THROW(CommunicationError, "[", codec.name(), "] scaler ", scaler, " of segment ", encoded.slice.segment,
                   " is none from 0 to ", max);
  }
}

}  // namespace terngrad
