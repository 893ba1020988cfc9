#include "compress/codec/codec.h"

#include "kernels/codes/rotate.h"
#include "kernels/runtime/errors.h"
#include "kernels/sparse/drawn_payload.h"
#include "kernels/sparse/sparse_payload.h"

namespace terngrad {

SumForm Codec::sum_form() const { TERNGRAD_THROW(InvalidArgument, "[", name(), "] codes do not add up as integers"); }

std::optional<SparseShape> Codec::sparse_form(const Slice&) const { return std::nullopt; }

std::optional<DrawnShape> Codec::drawn_form(const Slice&) const { return std::nullopt; }

TailRotation Codec::tail_rotation() const { return TailRotation::kOnce; }

void Codec::decode(const EncodedSlice& encoded, std::span<float> out) const {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(out.size()) == encoded.slice.count, "[", name(), "] out must hold ",
                   encoded.slice.count, " elements, holds ", out.size());
  decode_part(encoded, 0, out);
}

void Codec::decode_part(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  decode_range(encoded, first, out);
  if (rotation() == 0) return;
  TERNGRAD_REQUIRE(encoded.key.has_value(), "[", name(), "] rotate=", rotation(),
                   " is turned back with draws of the run: a reader needs its seed");
  const RotateTask task{.values = out.data(),
                        .first = encoded.slice.first + first,
                        .count = static_cast<std::int64_t>(out.size()),
                        .draw_offset = encoded.draw_offset,
                        .out = out.data()};
  Stream stream;
  Rotator(rotation(), Device::cpu(), tail_rotation())
      .run({&task, 1}, Rotation::kBackward, {.seed = encoded.key->seed, .step = encoded.key->step}, stream);
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
