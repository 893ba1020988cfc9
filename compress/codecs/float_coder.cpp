// Coder of codecs fp32 and bf16, on either device.
#include <vector>

#include "compress/codec/coder.h"
#include "compress/codecs/float_codecs.h"
#include "kernels/codes/float_payload.h"
#include "kernels/codes/tree_sum.h"
#include "kernels/runtime/copy.h"
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

class FloatCoder final : public Coder {
 public:
  FloatCoder(const FloatCodec& codec, Width width, const CoderSetup& setup, const std::vector<int>& segments,
             PayloadSlots& slots)
      : Coder(codec, setup, segments, slots),
        width_(width),
        plan_(slices_of(setup.layout, segments), setup.device),
        packer_(width == Width::kFloat32 ? FloatPayload::kFloat32 : FloatPayload::kBfloat16, setup.device),
        summer_(setup.device) {}

  bool can_overflow() const override { return true; }

  void measure(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) override {
    if (!setup().finds_nonfinite) return fill_zero(local_rows(), stream);
    nonfinite_flags(plan_, gradients, FloatCodec::first_nonfinite(width_), local_rows(), stream);
  }

  void encode(std::span<const TensorTable> gradients, const DeviceStep&, Stream& stream) override {
    pack_tasks_.clear();
    for (std::size_t worker = 0; worker < gradients.size(); ++worker) {
      const float* flags = local(global(worker));
      for (std::size_t i = 0; i < encoded().size(); ++i) {
        const auto& [slice, first_scaler] = encoded()[i];
        pack_tasks_.push_back({.values = gradients[worker].data(slice),
                               .count = slice.count,
                               .flag = flags + first_scaler,
                               .payload = outgoing(i, worker),
                               .type = gradients[worker].type()});
        outgoing_bytes(i, worker) = codec().max_payload_bytes(slice, PayloadForm::kNatural);
      }
    }
    packer_.run(pack_tasks_, stream);
  }

  void aggregate(const TensorTable& mean, AggregateUnit unit, Stream& stream) override {
    TERNGRAD_REQUIRE(unit == AggregateUnit::kMean, "[", codec().name(), "] elements are not integer codes");
    const std::span<const int> summed = slots().summed_workers;
    const auto n = static_cast<std::size_t>(slots().num_payloads);
    tasks_.clear();
    leaves_.resize(aggregated().size() * n);
    for (std::size_t i = 0; i < aggregated().size(); ++i) {
      const Slice& slice = aggregated()[i].slice;
      for (std::size_t k = 0; k < n; ++k) {
        leaves_[i * n + k] = {.payload = {incoming(i)[k], static_cast<std::size_t>(incoming_bytes(i)[k])},
                              .num_workers = summed.empty() ? 1 : summed[k]};
      }
      tasks_.push_back({.format = summed.empty() ? leaf_format() : LeafFormat::kFloat32,
                        .workers = {leaves_.data() + i * n, n},
                        .first = slice.first,
                        .count = slice.count,
                        .scale = 1.0f / static_cast<float>(setup().workers.num_workers),
                        .out = mean.slice(slice)});
    }
    summer_.run(tasks_, stream);
  }

  void add_local(std::size_t index, int first_local_worker, int num_local_workers, float* out,
                 Stream& stream) override {
    const Slice& slice = encoded()[index].slice;
    const auto n = static_cast<std::size_t>(num_local_workers);
    leaves_.resize(n);
    for (std::size_t k = 0; k < n; ++k) {
      const std::size_t worker = static_cast<std::size_t>(first_local_worker) + k;
      leaves_[k] = {.payload = {outgoing(index, worker), static_cast<std::size_t>(outgoing_bytes(index, worker))}};
    }
    const MeanTask task{
        .format = leaf_format(), .workers = leaves_, .first = slice.first, .count = slice.count, .out = out};
    summer_.run({&task, 1}, stream);
  }

 private:
  LeafFormat leaf_format() const { return width_ == Width::kFloat32 ? LeafFormat::kFloat32 : LeafFormat::kBfloat16; }

  Width width_;
  StatisticsPlan plan_;
  FloatPacker packer_;
  TreeSummer summer_;
  std::vector<FloatPayloadTask> pack_tasks_;
  std::vector<MeanLeaf> leaves_;
  std::vector<MeanTask> tasks_;
};

}  // namespace

std::unique_ptr<Coder> FloatCodec::make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                              PayloadSlots& slots) const {
  return std::make_unique<FloatCoder>(*this, width_, setup, segments, slots);
}

}  // namespace terngrad
