// DownlinkCodec: how the aggregated gradient travels back.
#pragma once

#include <string>

namespace terngrad {

/// How the aggregated gradient travels back. Part of the result: every algorithm applies it, also where nothing
/// travels.
enum class DownlinkCodec {
  kFloat32,   // as it is
  kBfloat16,  // every tensor rounded to bfloat16
  kSums,      // integer sums of codes in lanes, or votes as t2, exact; tensors whose codec is not summable as float32
  kTernary,   // ternarized again: scale fl(fl(s / fl(L N)) * m), code sign(k) with probability |k| / m, where k is the
              // integer sum and m = max|k| of the tensor (scope block: of the block); tensors whose codec is not
              // summable as float32. Votes are refused
  kSparse,    // exact: of tensors whose codec is sparse the elements that are not zero, others as float32
};

/// "fp32", "bf16", "sums", "ternary", "sparse".
std::string to_string(DownlinkCodec codec);

}  // namespace terngrad
