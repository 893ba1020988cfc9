// Gradients that travel as float32 or bfloat16 between workers on a GPU.
#include <vector>

#include "compress/device_coder.h"
#include "compress/float_codecs.h"
#include "kernels/errors.h"
#include "kernels/float_payload.h"
#include "kernels/scaler.h"
#include "kernels/tree_sum.h"

namespace terngrad {
namespace {

using Width = FloatCodec::Width;

std::int64_t bytes_of(Width width, std::int64_t count) {
  return (count * (width == Width::kFloat32 ? 4 : 2) + 3) / 4 * 4;
}

std::vector<std::int64_t> scalers_of_segments(const Layout& layout, std::span<const int> segments) {
  std::vector<std::int64_t> result;
  for (const int segment : segments) result.push_back(layout.segment(segment).num_elements > 0 ? 1 : 0);
  return result;
}

std::vector<std::int64_t> bytes_of_segments(Width width, const Layout& layout, std::span<const int> segments) {
  std::vector<std::int64_t> result;
  for (const int segment : segments) result.push_back(bytes_of(width, layout.segment(segment).num_elements));
  return result;
}

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
  FloatDeviceCoder(Width width, const DeviceExchangeSetup& setup, const std::vector<int>& segments)
      : DeviceCoder(setup, segments, scalers_of_segments(setup.layout, segments),
                    bytes_of_segments(width, setup.layout, segments), ScalerCombination::kGreatest),
        width_(width),
        plan_(slices_of(setup.layout, segments), setup.device),
        packer_(width == Width::kFloat32 ? FloatPayload::kFloat32 : FloatPayload::kBfloat16, setup.device),
        summer_(setup.device),
        decoder_(setup.device) {}

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
      const int global = setup().workers.first_local_worker + static_cast<int>(worker);
      for (std::size_t i = 0; i < segments().size(); ++i) {
        if (segment(i).num_elements == 0) continue;
        pack_tasks_.push_back({.values = gradients[worker].tensor(segments()[i]),
                               .count = segment(i).num_elements,
                               .flag = local(global, i),
                               .payload = payload(global, i)});
      }
    }
    packer_.run(pack_tasks_, stream);
  }

  void aggregate(const TensorTable& mean, bool, Stream& stream) override {
    tasks_.clear();
    leaves_.resize(segments().size() * static_cast<std::size_t>(setup().workers.num_workers));
    std::size_t leaf = 0;
    for (std::size_t i = 0; i < segments().size(); ++i) {
      const std::size_t first_leaf = leaf;
      for (int worker = 0; worker < setup().workers.num_workers; ++worker) leaves_[leaf++] = leaf_of(worker, i);
      if (segment(i).num_elements == 0) continue;
      tasks_.push_back({.format = format(),
                        .workers = {leaves_.data() + first_leaf, leaf - first_leaf},
                        .count = segment(i).num_elements,
                        .scale = 1.0f / static_cast<float>(setup().workers.num_workers),
                        .out = mean.tensor(segments()[i])});
    }
    summer_.run(tasks_, stream);
  }

  void decode(int local_worker, int which, std::span<float> out, Stream& stream) override {
    const std::size_t i = index_of(which);
    const MeanLeaf leaf = leaf_of(setup().workers.first_local_worker + local_worker, i);
    const MeanTask task = {
        .format = format(), .workers = {&leaf, 1}, .count = segment(i).num_elements, .out = out.data()};
    decoder_.run({&task, 1}, stream);
  }

 private:
  LeafFormat format() const { return width_ == Width::kFloat32 ? LeafFormat::kFloat32 : LeafFormat::kBfloat16; }
  MeanLeaf leaf_of(int worker, std::size_t i) {
    return {.payload = {payload(worker, i), static_cast<std::size_t>(bytes_of(width_, segment(i).num_elements))}};
  }

  Width width_;
  StatisticsPlan plan_;
  FloatPacker packer_;
  TreeSummer summer_;
  TreeSummer decoder_;
  std::vector<FloatPayloadTask> pack_tasks_;
  std::vector<MeanLeaf> leaves_;
  std::vector<MeanTask> tasks_;
};

}  // namespace

std::unique_ptr<DeviceCoder> FloatCodec::make_device_coder(const DeviceExchangeSetup& setup,
                                                           const std::vector<int>& segments) const {
  return std::make_unique<FloatDeviceCoder>(width_, setup, segments);
}

}  // namespace terngrad
