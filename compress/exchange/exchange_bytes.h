// The bytes that an exchange moves, known before it runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/exchange/downlink_forms.h"
#include "compress/exchange/exchange_algorithm.h"
#include "compress/plan/codec_plan.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Size of a worker's message of local scalers, rounded up to a multiple of 8 bytes as in Parcels.
std::int64_t scalers_message_bytes(const Layout& layout, const CodecPlan& plan);

/// Size of a worker's message with these slices of its encoded gradient, rounded up likewise. Exact for codecs of fixed
/// size (CodecTraits::fixed_size), otherwise an upper bound.
std::int64_t gradient_message_bytes(const CodecPlan& plan, std::span<const Slice> slices, PayloadForm form);

/// Size of a message with these slices of the mean, rounded up likewise. Exact if forms.has_fixed_size(), otherwise an
/// upper bound.
std::int64_t mean_message_bytes(const CodecPlan& plan, const DownlinkForms& forms, std::span<const Slice> slices);

/// Bytes per step over the link of the busiest of N workers, each its own process, in its busier direction: the maximum
/// over workers and directions, summed over all rounds. Let S be the bytes of a message of scalers, G those of a whole
/// gradient, g_j and f_j those of shard j of the gradient and of the mean, R those of the tensors whose codes cannot be
/// summed, and L those of the lanes of the others. Then
///
///   all_gather       (N - 1) (S + G)
///   scatter_reduce   (N - 1) S + max over j of  sum_{i != j} g_i + (N - 1) f_j   (sent)
///                                          and  (N - 1) g_j + sum_{i != j} f_i   (received)
///   integer_sum      (N - 1) (S + R) + all_reduce_bytes(L, N)
///
/// With downlink codec ternary, scatter_reduce adds an all-reduce of 4 bytes per scaler. A function of the arguments
/// alone, so all ranks compute the same number.
/// @throws InvalidArgument for kAuto, or integer_sum of codecs none of which is summable
std::int64_t busiest_worker_bytes(ExchangeAlgorithm algorithm, DownlinkCodec downlink_codec, const Layout& layout,
                                  const CodecPlan& plan, int num_workers);

/// Bytes of integer_sum: each worker sends R to each other worker, and L takes part in an all-reduce, as above.
/// @throws InvalidArgument if no tensor has a codec that is summable
struct SummedBytes {
  std::int64_t gathered = 0;  // R
  std::int64_t lanes = 0;     // L
};
SummedBytes summed_bytes(const Layout& layout, const CodecPlan& plan);

/// Slices of whole tensors, either those whose codes can be summed as integers (integer_sum's lanes) or all others.
std::vector<Slice> select_summable(const Layout& layout, const CodecPlan& plan, bool summable);

}  // namespace terngrad
