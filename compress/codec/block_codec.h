// BlockCodec: what codecs of fixed-size codes with every worker's own scalers of blocks have in common.
#pragma once

#include <cstdint>
#include <string>

#include "compress/codec/codec.h"
#include "kernels/codes/ternary.h"

namespace terngrad {

/// Codes of one format, for blocks of elements with a scaler each that no other worker shares. The mean over N workers
/// is the tree-sum (kernels/tensor/worker_tree.h) of what each sent times fl(1 / N). Its coders are BlockCoders, or any
/// other that writes this format.
class BlockCodec : public Codec {
 public:
  const std::string& name() const override { return name_; }
  ScalerSharing sharing() const override { return ScalerSharing::kNone; }
  std::int64_t num_scalers(std::int64_t num_elements) const override;
  ScalerRange scaler_range(const Slice& slice) const override;
  std::uint8_t record_format(PayloadForm) const override { return static_cast<std::uint8_t>(format_); }
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const override;
  std::optional<LeafForm> leaf_form() const override;
  void check(const EncodedSlice& encoded) const override;
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override;

 protected:
  /// @throws InvalidArgument for a block that is no multiple of 64, or fewer than one worker
  BlockCodec(std::string name, CodeFormat format, std::int64_t block_elements, int num_workers);

 private:
  std::string name_;
  CodeFormat format_;
  std::int64_t block_elements_;
};

}  // namespace terngrad
