// The bytes that an exchange moves, known before it runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/exchange/downlink.h"
#include "compress/exchange/exchange_algorithm.h"
#include "compress/plan/codec_plan.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Size of a worker's message of local scalers, up to the next multiple of 8, as it travels among others.
std::int64_t scalers_message_bytes(const Layout& layout, const CodecPlan& plan);

/// The same of a worker's encoded gradient of these slices. Exact for codecs of fixed size (CodecTraits::fixed_size),
/// and the most for others.
std::int64_t gradient_message_bytes(const CodecPlan& plan, std::span<const Slice> slices, PayloadForm form);

/// Bytes per step over the link of the busiest of N workers, each its own process, in its busier direction: the
/// largest of what any of them sends, or receives, in all rounds. With S the bytes of a message of scalers, G those of
/// a whole gradient, g_j and f_j those of shard j of the gradient and of the mean, R those of the tensors whose codes
/// do not add up, and L those of the lanes of the others,
///
///   all_gather       (N - 1) (S + G)
///   scatter_reduce   (N - 1) S + max over j of  sum_{i != j} g_i + (N - 1) f_j   (sent)
///                                          and  (N - 1) g_j + sum_{i != j} f_i   (received)
///   integer_sum      (N - 1) (S + R) + all_reduce_bytes(L, N)
///
/// and with a ternary downlink scatter_reduce's all-reduce of a number per scaler besides. A function of its
/// arguments alone, so all ranks have the same number.
/// @throws InvalidArgument for kAuto, or integer_sum of codecs none of which is summable
std::int64_t busiest_worker_bytes(ExchangeAlgorithm algorithm, DownlinkCodec downlink_codec, const Layout& layout,
                                  const CodecPlan& plan, int num_workers);

/// What integer_sum moves: R of a worker to each other one, and L by an all-reduce, as above.
/// @throws InvalidArgument if no tensor has a codec that is summable
struct SummedBytes {
  std::int64_t gathered = 0;  // R
  std::int64_t lanes = 0;     // L
};
SummedBytes summed_bytes(const Layout& layout, const CodecPlan& plan);

/// The slices of whole tensors whose codes add up as integers (integer_sum's lanes), or of the others.
std::vector<Slice> select_summable(const Layout& layout, const CodecPlan& plan, bool summable);

}  // namespace terngrad
