#include "compress/codecs/onebit_codec.h"

#include <algorithm>

#include "compress/codec/scaled_runs.h"
#include "compress/codec/slice_coder.h"
#include "kernels/codes/signs.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary_pack.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"
#include "kernels/statistics/signed_statistics.h"

namespace terngrad {
namespace {

/// The runs of elements to measure, with the number of columns of their tensors.
std::vector<SignedRun> signed_runs(const Layout& layout, const std::vector<int>& segments, const OnebitCodec& codec) {
  std::vector<SignedRun> runs;
  for (const Slice& slice : statistics_slices(layout, segments, codec.kernel_block_elements())) {
    runs.push_back({slice, codec.kernel_columns()});
  }
  return runs;
}

class OnebitCoder final : public SliceCoder {
 public:
  OnebitCoder(const OnebitCodec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
      : SliceCoder(codec, setup, segments, slots, codec.kernel_block_elements()),
        columns_(codec.kernel_columns()),
        plan_(signed_runs(setup.layout, segments, codec), setup.device),
        packer_(setup.device) {}

  void measure(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) override {
    plan_.side_means(gradients, local_rows(), stream);
    flag_whole_tensors(stream);
  }

  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    const SignOptions options{.zeros = ZeroSign::kOwn, .two_scalers = true, .columns = columns_};
    packer_.run(quantize_tasks(gradients), options, draw_key(step), stream, step.on_device);
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[onebit] signs do not add up as integers");
    aggregate_own(mean, {.format = LeafFormat::kSides, .columns = columns_}, stream);
  }

 private:
  std::int64_t columns_;
  SignedStatisticsPlan plan_;
  SignPacker packer_;
};

}  // namespace

OnebitCodec::OnebitCodec(const OnebitOptions& options) : options_(options) {
  require_block_elements(options.block_elements, "onebit");
  TERNGRAD_REQUIRE(options.block_elements > 0,
                   "[onebit] block must be positive; accepted for whole tensors: group=layer");
  TERNGRAD_REQUIRE(options.columns >= 0, "[onebit] columns must not be negative, got ", options.columns);
  TERNGRAD_REQUIRE(options.num_workers >= 1, "[onebit] num_workers must be at least 1, got ", options.num_workers);
}

const std::string& OnebitCodec::name() const {
  static const std::string name = "onebit";
  return name;
}

CodecTraits OnebitCodec::traits() const {
  return {.bits_per_element = 1,
          .max_scaler = kMaxScaler,
          .unbiased = false,
          .wants_error_feedback = true,
          .columns = options_.group == OnebitGroup::kColumn ? options_.columns : CodecTraits::kAnyColumns};
}

std::string OnebitCodec::options_text() const {
  const std::string group = options_.group == OnebitGroup::kColumn  ? "column"
                            : options_.group == OnebitGroup::kLayer ? "layer"
                                                                    : "block";
  return "group=" + group +
         (options_.group == OnebitGroup::kBlock ? " block=" + std::to_string(options_.block_elements) : "") +
         " workers=" + std::to_string(options_.num_workers);
}

std::int64_t OnebitCodec::num_scalers(std::int64_t num_elements) const {
  return scaler_range({0, 0, num_elements}).count;
}

Codec::ScalerRange OnebitCodec::scaler_range(const Slice& slice) const {
  if (slice.count == 0) return {};
  if (kernel_columns() > 0) return {0, 2 * kernel_columns()};
  const ScalerRange groups = block_scaler_range(slice, kernel_block_elements());
  return {2 * groups.first, 2 * groups.count};
}

std::uint8_t OnebitCodec::record_format(PayloadForm) const { return static_cast<std::uint8_t>(CodeFormat::kBits); }

std::int64_t OnebitCodec::max_payload_bytes(const Slice& slice, PayloadForm) const {
  return payload_bytes(CodeFormat::kBits, slice.count, 1);
}

std::unique_ptr<Coder> OnebitCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                               PayloadSlots& slots) const {
  return std::make_unique<OnebitCoder>(*this, setup, segments, slots);
}

std::optional<Codec::LeafForm> OnebitCodec::leaf_form() const {
  return LeafForm{.format = LeafFormat::kSides, .block_elements = kernel_block_elements(), .columns = kernel_columns()};
}

void OnebitCodec::check(const EncodedSlice& encoded) const {
  if (encoded.format != record_format(PayloadForm::kNatural)) {
    TERNGRAD_THROW(CommunicationError, "[onebit] format ", static_cast<int>(encoded.format), " of segment ",
                   encoded.slice.segment, " is not bits");
  }
  check_payload({CodeFormat::kBits, encoded.payload, encoded.slice.count, 1});
}

void OnebitCodec::decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const {
  const MeanTask task{.format = LeafFormat::kSides,
                      .first = encoded.slice.first,
                      .count = encoded.slice.count,
                      .block_elements = kernel_block_elements(),
                      .columns = kernel_columns()};
  decode_leaf(task, {.payload = encoded.payload, .scalers = encoded.scalers.data()}, first, out);
}

OnebitOptions read_onebit_options(SpecReader& reader) {
  OnebitOptions o;
  o.group =
      reader.choice("group", o.group,
                    {{"column", OnebitGroup::kColumn}, {"layer", OnebitGroup::kLayer}, {"block", OnebitGroup::kBlock}},
                    "what shares two scalers: positions modulo the last dimension, a tensor, or a block");
  o.block_elements = reader.integer("block", o.block_elements, kMinBlockElements, kMaxBlockElements,
                                    "elements per pair of scalers of group=block", kMinBlockElements);
  reader.require_for("block", o.group == OnebitGroup::kBlock, "group=block");
  return o;
}

}  // namespace terngrad
