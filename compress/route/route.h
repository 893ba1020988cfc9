// Route: what moves between the workers of an exchange.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "compress/plan/exchange_choices.h"
#include "compress/route/downlink_forms.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// The payloads that an exchange algorithm moves. Scalers go from every worker to all others on every route.
struct Route {
  ExchangeAlgorithm algorithm = ExchangeAlgorithm::kAllGather;
  /// Slices whose payloads travel in their natural form: one list that every rank gets from every worker, or with
  /// is_scattered the shards, of which each goes to its owner.
  std::vector<std::vector<Slice>> parts = {};
  bool is_scattered = false;      // owners send the mean of their shards to all ranks
  std::vector<Slice> lanes = {};  // whole tensors whose codes are added as integers by an all-reduce
};

/// @param num_shards  number of shards of scatter_reduce
/// @param by_layout   cut shards by the layout alone, as if all tensors had one codec
/// @throws InvalidArgument for kAuto, and for integer_sum of codecs none of which is summable
Route make_route(ExchangeAlgorithm algorithm, const Layout& layout, const CodecPlan& plan, int num_shards,
                 bool by_layout = false);

// Sizes of messages, each rounded up to a multiple of 8 bytes as in Parcels.

/// Size of a worker's message of local scalers.
std::int64_t scalers_message_bytes(const Layout& layout, const CodecPlan& plan);

/// Size of a worker's message with these slices of its encoded gradient. Exact for codecs of fixed size
/// (CodecTraits::fixed_size), otherwise an upper bound.
std::int64_t gradient_message_bytes(const CodecPlan& plan, std::span<const Slice> slices);

/// Size of a message with these slices of the mean. Exact if forms.has_fixed_size(), otherwise an upper bound.
std::int64_t mean_message_bytes(const CodecPlan& plan, const DownlinkForms& forms, std::span<const Slice> slices);

/// Size of a worker's message with the parts of a route that is not scattered; 0 for no slices.
std::int64_t gathered_bytes(const CodecPlan& plan, const Route& route);

/// Size of the lanes that hold sums of these tensors' codes.
std::int64_t lane_bytes(const CodecPlan& plan, std::span<const Slice> slices);

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
/// @throws InvalidArgument as make_route
std::int64_t busiest_worker_bytes(ExchangeAlgorithm algorithm, DownlinkCodec downlink_codec, const Layout& layout,
                                  const CodecPlan& plan, int num_workers);

}  // namespace terngrad
