// 1-bit SGD: sign bits, with a scaler for each sign.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compress/codec/codec.h"
#include "compress/codec/codec_spec.h"

namespace terngrad {

/// Groups of elements that share two scalers.
enum class OnebitGroup : std::uint8_t {
  kColumn,  // the elements of equal position modulo the tensor's last dimension: the weights of one output unit
  kLayer,   // each tensor
  kBlock,   // each run of block_elements of a tensor
};

/// Options of OnebitCodec.
struct OnebitOptions {
  OnebitGroup group = OnebitGroup::kColumn;
  std::int64_t block_elements = 512;  // for OnebitGroup::kBlock; a multiple of 64
  std::int64_t columns = 0;           // for OnebitGroup::kColumn: last dimension of the tensors; 0: they have only one
  int num_workers = 1;                // N of the run
};

/// The sign bit of each element (1 = negative), and for each group the mean magnitude a- of its negative elements and
/// a+ of the others (kernels/statistics/signed_statistics.h): decoded = a+ or -a-. These two values minimize the error,
/// |C(g) - g|^2 = S2 - n+ a+^2 - n- a-^2 for a group. If both are 0 all bits are 0. Workers do not share scalers; the
/// mean over N workers is the tree-sum (kernels/tensor/worker_tree.h) of the decoded values times fl(1 / N). To be used
/// with error feedback.
/// Seide et al., "1-Bit Stochastic Gradient Descent and its Application to Data-Parallel Distributed Training of Speech
/// DNNs", Interspeech 2014. Scalers are a-, a+, a-, a+, ...; payload: bits (docs/wire-format.md).
class OnebitCodec final : public Codec {
 public:
  /// @throws InvalidArgument if block_elements is not a positive multiple of 64, columns < 0, or num_workers < 1
  explicit OnebitCodec(const OnebitOptions& options);

  const OnebitOptions& options() const { return options_; }

  const std::string& name() const override;
  std::uint8_t wire_id() const override { return 7; }
  CodecTraits traits() const override;
  ScalerSharing sharing() const override { return ScalerSharing::kNone; }
  std::string options_text() const override;
  std::int64_t num_scalers(std::int64_t num_elements) const override;
  ScalerRange scaler_range(const Slice& slice) const override;
  std::uint8_t record_format(PayloadForm form) const override;
  std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const override;
  std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                    PayloadSlots& slots) const override;
  std::optional<LeafForm> leaf_form() const override;
  void check(const EncodedSlice& encoded) const override;
  void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const override;

  /// Elements per pair of scalers, as kernels take it: 0 unless groups are blocks.
  std::int64_t kernel_block_elements() const {
    return options_.group == OnebitGroup::kBlock ? options_.block_elements : 0;
  }
  /// Columns as kernels take them: 0 unless groups are columns of tensors with several dimensions.
  std::int64_t kernel_columns() const { return options_.group == OnebitGroup::kColumn ? options_.columns : 0; }

 private:
  OnebitOptions options_;
};

/// Reads all keys of onebit. @throws InvalidArgument as SpecReader
OnebitOptions read_onebit_options(SpecReader& reader);

}  // namespace terngrad
