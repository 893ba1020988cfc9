// The random-k codec: elements at random positions, which are the same in all workers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/codec_spec.h"
#include "kernels/sparse/drawn_payload.h"

namespace terngrad {

/// Options of RandomKCodec.
struct RandomKOptions {
  double density = 0.01;     // 1 / q with an integer q
  bool is_unbiased = false;  // values are multiplied by q
  SparseValues values = SparseValues::kFloat32;
  int num_workers = 1;  // N of the run
};

/// One element of every q = 1 / density, counted from the tensor's start, is sent, the same one in all workers of a
/// step. Group j sends element j q + floor(r q / 2^32), r = draw32({K, step 0, worker 0, DrawPurpose::kSelect}, j); the
/// last group sends none if that is beyond the tensor's end. All other elements count as 0. K, words 0 and 1 of
/// draw_block({seed, step, worker 0, kSelect}, draw offset / 4), is part of the payload, so readers need no seed. Each
/// element is sent with probability 1 / q, as if k of n elements were drawn (Stich et al., "Sparsified SGD with
/// memory", NeurIPS 2018), with n / q draws instead of n.
///
/// With scale=1 values are sent unchanged: biased, |C(g) - g|^2 = (1 - 1 / q) |g|^2 on average, for error feedback,
/// which is then on by default. With scale=q they are sent as fl(q g): unbiased, E |C(g) - g|^2 = (q - 1) |g|^2, and
/// refused by error feedback, whose residual would grow without bound. The mean over N workers is the tree-sum
/// (kernels/tensor/worker_tree.h) of the decoded values, times fl(1 / N). One scaler per tensor, 0, which only carries
/// the flag for elements that are not finite in the format sent. Payload: drawn; docs/wire-format.md.
class RandomKCodec final : public Codec {
 public:
  /// @throws InvalidArgument for options out of range, and for a density that is not 1 / q with an integer q
  explicit RandomKCodec(const RandomKOptions& options);

  const RandomKOptions& options() const { return options_; }
  /// q: number of elements per group.
  std::int64_t group_elements() const { return group_elements_; }
  /// Factor of values sent: 1 or q.
  float factor() const;
  /// Shape of the payload of a slice.
  DrawnShape shape(const Slice& slice) const;
  /// Decoded value of an element.
  float sent(float element) const;
  /// Bit pattern of the smallest magnitude that is not finite in the format sent.
  std::uint32_t first_nonfinite() const { return first_nonfinite_; }

  const std::string& name() const override;
  std::uint8_t wire_id() const override { return 9; }
  CodecTraits traits() const override;
  ScalerSharing sharing() const override { return ScalerSharing::kMax; }
  std::string options_text() const override;
  std::int64_t num_scalers(std::int64_t num_elements) const override { return num_elements > 0 ? 1 : 0; }
  ScalerRange scaler_range(const Slice& slice) const override { return {0, slice.count > 0 ? 1 : 0}; }
  std::uint8_t record_format(PayloadForm form) const override;
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const override;
  std::optional<DrawnShape> drawn_form(const Slice& slice) const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;
  void check(const EncodedSlice& encoded) const override;
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override;

 private:
  RandomKOptions options_;
  std::int64_t group_elements_ = 1;
  std::uint32_t first_nonfinite_ = 0;
};

/// Reads all keys of randomk. @throws InvalidArgument as SpecReader
RandomKOptions read_randomk_options(SpecReader& reader);

}  // namespace terngrad
