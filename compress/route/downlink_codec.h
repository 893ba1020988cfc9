// DownlinkCodec: encoding of the aggregated gradient on its way back.
#pragma once

#include <string>

namespace terngrad {

/// Encoding of the aggregated gradient on its way back. It changes the result, so every algorithm applies it, even if
/// no mean travels.
enum class DownlinkCodec {
  kFloat32,   // unchanged
  kBfloat16,  // every tensor rounded to bfloat16
  kSums,      // exact: integer sums of codes in lanes, or votes as t2; tensors without a summable codec as float32
  kTernary,   // ternarized again: scale fl(fl(s / fl(L N)) * m), code sign(k) with probability |k| / m, where k is the
              // integer sum and m = max|k| of the tensor (scope block: of the block). Tensors without a summable
              // codec as float32; codecs that vote are refused
  kSparse,    // exact: nonzero elements of tensors with a sparse codec, other tensors as float32
};

/// "fp32", "bf16", "sums", "ternary", "sparse".
std::string to_string(DownlinkCodec codec);

}  // namespace terngrad
