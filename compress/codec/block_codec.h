// BlockCodec: base of codecs with fixed-size codes and unshared scalers per block.
#pragma once

#include <cstdint>
#include <string>

#include "compress/codec/codec.h"
#include "kernels/codes/ternary.h"

namespace terngrad {

/// Base of codecs with codes of one format and one scaler per block of elements, which workers do not share. The mean
/// over N workers is the tree-sum (kernels/tensor/worker_tree.h) of the decoded values times fl(1 / N). Its coders are
/// BlockCoders, or any other coder that writes this format.
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
  /// @throws InvalidArgument if block_elements is not a multiple of 64, or num_workers < 1
  BlockCodec(std::string name, CodeFormat format, std::int64_t block_elements, int num_workers);

 private:
  std::string name_;
  CodeFormat format_;
  std::int64_t block_elements_;
};

}  // namespace terngrad
