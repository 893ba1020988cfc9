// Choices of an exchange, with their words: how messages travel, how the mean returns, what workers keep, and what
// happens to values that are not finite. compress/plan/combinations.h says which of them go together.
#pragma once

#include <array>

#include "kernels/runtime/choices.h"

namespace terngrad {

/// How messages travel. The mean has the same bits with all of them (contract B2).
enum class ExchangeAlgorithm {
  kAllGather,      // every worker gets every worker's message and aggregates it itself
  kScatterReduce,  // worker j aggregates shard j of N and sends the result to all
  kIntegerSum,     // codes are summed in packed lanes by an all-reduce (summable codecs); other tensors use all_gather
  kAuto,           // fewest bytes over a worker's link (compress/route/route.h), counting each worker as a process,
          // so that a run reports the same for any number of processes. With downlink codec sums: scatter_reduce, whose
          // downlink can be sums of codes
};

template <>
struct Choices<ExchangeAlgorithm> {
  static constexpr std::array<Choice<ExchangeAlgorithm>, 4> kAll = {
      {{"auto", ExchangeAlgorithm::kAuto},
       {"all_gather", ExchangeAlgorithm::kAllGather},
       {"scatter_reduce", ExchangeAlgorithm::kScatterReduce},
       {"integer_sum", ExchangeAlgorithm::kIntegerSum}}};
};

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

template <>
struct Choices<DownlinkCodec> {
  static constexpr std::array<Choice<DownlinkCodec>, 5> kAll = {{{"fp32", DownlinkCodec::kFloat32},
                                                                 {"bf16", DownlinkCodec::kBfloat16},
                                                                 {"sums", DownlinkCodec::kSums},
                                                                 {"ternary", DownlinkCodec::kTernary},
                                                                 {"sparse", DownlinkCodec::kSparse}}};
};

/// Memory of a worker: how it updates its state, with gradient g, encoded h; fl rounds to float32.
enum class MemoryKind {
  kNone,
  kErrorFeedback,  // residual: h = fl(fl(decay e) + g), e = fl(h - decoded message) (Seide et al., 2014)
  kMomentum,       // a moving average: h = fl(fl(decay u) + fl((1 - decay) g)), u = h (Signum, Bernstein et al., 2018)
  kDgc,            // momentum before error feedback (Lin et al., "Deep gradient compression", ICLR 2018;
                   // compress/memory/memory_options.h)
  kLoco,           // a moving average of residuals in 8 bits: h = fl(e + g), e = fl(fl(decay e) + fl((1 - decay) fl(h -
                   // decoded message))), e counts as 0 in steps that are multiples of `reset` (LoCo,
                   // kernels/tensor/averaged_residual.h)
  kEf21,           // an estimate of the gradient: h = fl(g - e), e = fl(e + decoded message); the mean of the estimates
                   // takes the place of that of the messages (Richtarik et al., "EF21", NeurIPS 2021;
                   // compress/memory/memory_options.h)
};

template <>
struct Choices<MemoryKind> {
  static constexpr std::array<Choice<MemoryKind>, 6> kAll = {{{"none", MemoryKind::kNone},
                                                              {"ef", MemoryKind::kErrorFeedback},
                                                              {"momentum", MemoryKind::kMomentum},
                                                              {"dgc", MemoryKind::kDgc},
                                                              {"loco", MemoryKind::kLoco},
                                                              {"ef21", MemoryKind::kEf21}}};
};

/// Policy for gradients or means with NaN or infinity.
enum class OnNonfinite {
  kStop,  // throw NonFiniteError that names tensor, worker and step
  kSkip,  // drop the step on all ranks
  kZero,  // count that worker's tensor as zeros and still divide by N; a mean that overflows counts as zeros
};

template <>
struct Choices<OnNonfinite> {
  static constexpr std::array<Choice<OnNonfinite>, 3> kAll = {
      {{"stop", OnNonfinite::kStop}, {"skip", OnNonfinite::kSkip}, {"zero", OnNonfinite::kZero}}};
};

}  // namespace terngrad
