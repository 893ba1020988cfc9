#include "compress/codecs/eden_codec.h"

#include "compress/codec/scaled_runs.h"
#include "compress/codec/slice_coder.h"
#include "kernels/codes/codebook_codes.h"
#include "kernels/codes/rotate.h"
#include "kernels/codes/signs.h"
#include "kernels/codes/ternarize.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler_limits.h"

namespace terngrad {
namespace {

const char* text(CodebookScale scale) { return scale == CodebookScale::kUnbiased ? "unbiased" : "least"; }

CodeFormat format_of(int levels) {
  TERNGRAD_REQUIRE(has_codebook(levels), "[eden] levels=", levels, "; accepted: 2, 3, 4, 8, 16");
  return levels == 2 ? CodeFormat::kBits : levels == 3 ? CodeFormat::kT5 : codebook_format(levels);
}

class EdenCoder final : public SliceCoder {
 public:
  EdenCoder(const EdenCodec& codec, const CoderSetup& setup, const std::vector<int>& segments, PayloadSlots& slots)
      : SliceCoder(codec, setup, segments, slots, codec.rotation()),
        levels_(codec.options().levels),
        plan_(statistics_slices(setup.layout, segments, codec.rotation()), codebook(levels_), codec.options().scale,
              setup.device),
        units_(setup.workers.num_local_workers * num_scalers(), setup.device),
        packer_(setup.device),
        ternarizer_(setup.device),
        quantizer_(setup.device) {}

  void measure(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    plan_.run(rotate(gradients, step, stream), units_.span(), local_rows(), stream);
    flag_whole_tensors(stream);
    flag_whole_tensors(units_.data(), stream);
  }

  void encode(std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream) override {
    const std::span<const QuantizeTask> tasks = quantize_tasks(rotated(gradients), units_.data());
    if (levels_ == 2) return packer_.run(tasks, {.zeros = ZeroSign::kPlus}, draw_key(step), stream, step.on_device);
    if (levels_ != 3) return quantizer_.run(tasks, levels_, stream);
    ternarize_tasks_.clear();
    for (const QuantizeTask& task : tasks) ternarize_tasks_.push_back(ternarize_task(task));
    bytes_.resize(tasks.size());
    ternarizer_.run(ternarize_tasks_, {.format = CodeFormat::kT5, .rounding = Rounding::kNearest}, draw_key(step),
                    bytes_, stream, step.on_device);
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[eden] codes with scalers of their own do not add up as integers");
    aggregate_own(mean, {.format = leaf_format(format_of(levels_))}, stream);
  }

 private:
  int levels_;
  CodebookScalerPlan plan_;
  Buffer<float> units_;  // [local workers][num_scalers]
  SignPacker packer_;
  Ternarizer ternarizer_;
  CodebookQuantizer quantizer_;
  std::vector<TernarizeTask> ternarize_tasks_;
  std::vector<std::int64_t> bytes_;
};

}  // namespace

EdenCodec::EdenCodec(const EdenOptions& options)
    : BlockCodec("eden", format_of(options.levels), options.rotation, options.num_workers), options_(options) {
  TERNGRAD_REQUIRE(options.rotation != 0,
                   "[eden] rotate=0: levels are those of rotated gradients; accepted: powers of two from ",
                   kMinRotationElements, " to ", kMaxRotationElements);
  require_rotation(options.rotation);
}

CodecTraits EdenCodec::traits() const {
  constexpr double kBitsOfT5 = 1.6;
  const CodeFormat format = format_of(options_.levels);
  return {.bits_per_element = format == CodeFormat::kBits ? 1
                              : format == CodeFormat::kT5 ? kBitsOfT5
                                                          : codebook_bits(format),
          .max_scaler = kMaxScaler,
          .unbiased = false};
}

std::string EdenCodec::options_text() const {
  return "levels=" + std::to_string(options_.levels) + " scale=" + text(options_.scale) +
         " rotate=" + std::to_string(options_.rotation) + " workers=" + std::to_string(options_.num_workers);
}

std::unique_ptr<Coder> EdenCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                             PayloadSlots& slots) const {
  return std::make_unique<EdenCoder>(*this, setup, segments, slots);
}

EdenOptions read_eden_options(SpecReader& reader) {
  EdenOptions o;
  o.levels = reader.choice("levels", o.levels, {{"2", 2}, {"3", 3}, {"4", 4}, {"8", 8}, {"16", 16}},
                           "of an element, in 1, 1.6, 2, 3 and 4 bits");
  o.scale = reader.choice("scale", o.scale, {{"unbiased", CodebookScale::kUnbiased}, {"least", CodebookScale::kLeast}},
                          "of a run: unbiased over rotations, or of the least error, for error feedback");
  o.rotation = reader.rotation(o.rotation);
  return o;
}

}  // namespace terngrad
