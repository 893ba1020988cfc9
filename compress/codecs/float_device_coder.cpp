// Gradients that travel as float32 or bfloat16 between workers on a GPU.
#include <vector>

#include "compress/codecs/device_coder.h"
#include "compress/codecs/float_codecs.h"
#include "kernels/codes/float_payload.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/scaler.h"

namespace terngrad {
namespace {

using Width = FloatCodec::Width;

std::vector<Slice> slices_of(const Layout& layout, std::span<const int> segments) {
  std::vector<Slice> slices;
  for (const int segment : segments) {
    const std::int64_t n = layout.segment(segment).num_elements;
    if (n > 0) slices.push_back({segment, 0, n});
  }
  return slices;
}

class FloatDeviceCoder final : public DeviceCoder {
 public:
  FloatDeviceCoder(const FloatCodec& codec, Width width, const DeviceExchangeSetup& setup,
                   const std::vector<int>& segments, DeviceSlots slots)
      : DeviceCoder(codec, setup, segments, std::move(slots), ScalerCombination::kMax),
        width_(width),
        plan_(slices_of(setup.layout, segments), setup.device),
        packer_(width == Width::kFloat32 ? FloatPayload::kFloat32 : FloatPayload::kBfloat16, setup.device),
        summer_(setup.device) {}

  bool can_overflow() const override { return true; }

  void measure(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) override {
    for (const TensorTable& gradient : gradients) {
      TERNGRAD_REQUIRE(gradient.type() == ElementType::kFloat32,
                       "[float] on a GPU tensors that travel as numbers must be fp32, these are ",
                       element_type_name(gradient.type()));
    }
    nonfinite_flags(plan_, gradients, FloatCodec::first_nonfinite(width_), local_rows(), stream);
  }

  void encode(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) override {
    pack_tasks_.clear();
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      const float* flags = local(global(worker));
      for (std::size_t i = 0; i < encoded().size(); ++i) {
        const auto& [slice, first_scaler] = encoded()[i];
        pack_tasks_.push_back({.values = gradients[worker].slice(slice),
                               .count = slice.count,
                               .flag = flags + first_scaler,
                               .payload = outgoing(i, worker)});
      }
    }
    packer_.run(pack_tasks_, stream);
  }

  void aggregate(const TensorTable& mean, bool, Stream& stream) override {
    const LeafFormat format = width_ == Width::kFloat32 ? LeafFormat::kFloat32 : LeafFormat::kBfloat16;
    const auto n = static_cast<std::size_t>(slots().num_payloads);
    tasks_.clear();
    leaves_.resize(aggregated().size() * n);
    for (std::size_t i = 0; i < aggregated().size(); ++i) {
      const Slice& slice = aggregated()[i].slice;
      const auto bytes = static_cast<std::size_t>(codec().max_payload_bytes(slice, PayloadForm::kNatural));
      for (std::size_t worker = 0; worker < n; ++worker) {
        leaves_[i * n + worker] = {.payload = {incoming(i)[worker], bytes}};
      }
      tasks_.push_back({.format = format,
                        .workers = {leaves_.data() + i * n, n},
                        .first = slice.first,
                        .count = slice.count,
                        .scale = 1.0f / static_cast<float>(setup().workers.num_workers),
                        .out = mean.slice(slice)});
    }
    summer_.run(tasks_, stream);
  }

 private:
  Width width_;
  StatisticsPlan plan_;
  FloatPacker packer_;
  TreeSummer summer_;
  std::vector<FloatPayloadTask> pack_tasks_;
  std::vector<MeanLeaf> leaves_;
  std::vector<MeanTask> tasks_;
};

}  // namespace

std::unique_ptr<DeviceCoder> FloatCodec::make_device_coder(const DeviceExchangeSetup& setup,
                                                           const std::vector<int>& segments,
                                                           const DeviceSlots& slots) const {
  return std::make_unique<FloatDeviceCoder>(*this, width_, setup, segments, slots);
}

}  // namespace terngrad
