// SentDecoder: decodes the messages of a GPU's workers in GPU memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/codes/code_sum.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "kernels/sparse/drawn_payload.h"
#include "kernels/sparse/sparse_sum.h"
#include "kernels/statistics/scaler_sharing.h"

namespace terngrad {

class Codec;
struct CoderSetup;
struct PayloadSlots;

/// Decodes one local worker's own payloads at a time, into memory that all workers share. Keeps the tables of a step
/// per worker, so that a step after the first can be captured into a graph.
class SentDecoder {
 public:
  /// @param codec, setup, slots  members of the coder, which must outlive this
  SentDecoder(const Codec& codec, const CoderSetup& setup, const PayloadSlots& slots, std::int64_t num_scalers);

  /// Decodes every encoded slice of a local worker. The host does not wait, except for codecs that kernels cannot
  /// decode (see Codec::leaf_form, sparse_form, drawn_form): those it decodes itself.
  /// @param scalers        [num_scalers] scalers of the worker's messages, on the device
  /// @param first_scalers  per encoded slice: index of its first scaler
  /// @returns per encoded slice its elements, valid until the next call; the caller may write to them. Rotated values
  /// stay rotated
  std::span<float* const> run(std::size_t local_worker, const float* scalers,
                              std::span<const std::int64_t> first_scalers, Stream& stream);

 private:
  /// Method for decoding the codec's messages.
  enum class Decoding { kLanes, kLeaves, kSparse, kDrawn, kHost };
  Decoding decoding_of() const;
  void decode_lanes(std::size_t local_worker, const float* scalers, std::span<const std::int64_t> first_scalers,
                    Stream& stream);
  void decode_leaves(std::size_t local_worker, const float* scalers, std::span<const std::int64_t> first_scalers,
                     Stream& stream);
  void decode_sparse(std::size_t local_worker, Stream& stream);
  void decode_drawn(std::size_t local_worker, Stream& stream);
  void decode_on_host(std::size_t local_worker, const float* scalers, std::span<const std::int64_t> first_scalers,
                      Stream& stream);
  const std::uint8_t* payload(std::size_t encoded, std::size_t local_worker) const;
  std::int64_t payload_bytes(std::size_t encoded, std::size_t local_worker) const;

  const Codec& codec_;
  const CoderSetup& setup_;
  const PayloadSlots& slots_;
  Decoding decoding_;
  Buffer<float> elements_;
  std::vector<float*> of_slices_;
  // One per local worker, for the method decoding_.
  std::vector<TreeSummer> tree_summers_;
  std::vector<CodeSummer> code_summers_;
  std::vector<SparseSummer> sparse_summers_;
  std::vector<DrawnSummer> drawn_summers_;
  // Units of codes in lanes: fl(s / L).
  Buffer<ScalerPlace> places_;
  Buffer<float> units_, unused_;
  Buffer<NonfiniteReport> report_;
};

}  // namespace terngrad
