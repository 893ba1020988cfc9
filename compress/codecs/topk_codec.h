// The top-k codec: the elements of largest magnitude, with their positions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/codec_spec.h"
#include "kernels/sparse/sparse_payload.h"

namespace terngrad {

/// Sets of elements among which the largest are chosen.
enum class TopKScope : std::uint8_t { kLayer, kBlock };

/// Options of TopKCodec.
struct TopKOptions {
  double density = 0.01;  // in (0, 1]
  TopKScope scope = TopKScope::kLayer;
  std::int64_t block_elements = 4096;  // for TopKScope::kBlock; a power of two from 256 to 65536
  SparseValues values = SparseValues::kFloat32;
  std::int64_t stage_steps = 0;  // steps per warm-up stage; 0: no warm-up. TopKScope::kLayer only
  int num_workers = 1;           // N of the run
};

/// From each tensor, or each block of B elements counted from its start, the k = min(n, max(1, ceil(n density)))
/// elements of largest |g| (compared as fp32 bit patterns; ties go to the first) are sent with their positions,
/// unchanged or rounded to bf16; all others count as 0. |C(g) - g|^2 <= (1 - k / n) |g|^2 (values=fp32); error
/// feedback, which makes up for dropped elements, is on by default. With a warm-up (Lin et al., "Deep gradient
/// compression", ICLR 2018) the density of step t is max(density, 4^-(e + 1)), e = floor(t / stage_steps): 1/4, 1/16,
/// 1/64 and so on. The mean of an element is the sum of the values sent, starting with +0, in order of
/// workers, times fl(1 / N) (kernels/sparse/sparse_sum.h). That is not the order of kernels/tensor/worker_tree.h, but
/// messages are never added on their way, so the result is the same for any number of processes (contract B2). One
/// scaler per tensor, 0, which only carries the non-finite flag.
/// Aji and Heafield, "Sparse communication for distributed gradient descent", EMNLP 2017; Stich et al., "Sparsified SGD
/// with memory", NeurIPS 2018. Payloads: runs (layer), local (block); docs/wire-format.md.
class TopKCodec final : public Codec {
 public:
  /// @throws InvalidArgument for options out of range
  explicit TopKCodec(const TopKOptions& options);

  const TopKOptions& options() const { return options_; }
  /// Density of a step, from the warm-up if there is one.
  double density_at(std::uint64_t step) const;
  /// Shape of the payload of a slice. @param slice  whole tensor (kLayer), or beginning with a block (kBlock)
  /// @param density  of the step
  SparseShape shape(const Slice& slice, double density) const;
  /// Shape that a payload declares, which may be that of any stage of the warm-up.
  SparseShape shape(const EncodedSlice& encoded) const;
  /// Bit pattern of the smallest magnitude that is not finite on the wire.
  std::uint32_t first_nonfinite() const;

  const std::string& name() const override;
  std::uint8_t wire_id() const override { return 8; }
  CodecTraits traits() const override;
  ScalerSharing sharing() const override { return ScalerSharing::kMax; }
  std::string options_text() const override;
  std::int64_t num_scalers(std::int64_t num_elements) const override { return num_elements > 0 ? 1 : 0; }
  ScalerRange scaler_range(const Slice& slice) const override { return {0, slice.count > 0 ? 1 : 0}; }
  std::uint8_t record_format(PayloadForm form) const override;
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const override;
  std::optional<SparseShape> sparse_form(const Slice& slice) const override;
  std::vector<std::uint64_t> stages() const override;
  std::shared_ptr<const Codec> at_step(std::uint64_t step) const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;
  void check(const EncodedSlice& encoded) const override;
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override;

 private:
  TopKOptions options_;
  std::vector<double> densities_;  // per stage of the warm-up, then for all other steps
};

/// Reads all keys of topk. @throws InvalidArgument as SpecReader
TopKOptions read_topk_options(SpecReader& reader);

}  // namespace terngrad
