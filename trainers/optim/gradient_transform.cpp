#include "trainers/optim/gradient_transform.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/statistics.h"
#include "nets/net.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/trained_tensors.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad {
namespace {

class TensorTransform final : public GradientTransform {
 public:
  TensorTransform(std::string name, const Layout& layout, TensorFunction function)
      : name_(std::move(name)), layout_(layout), function_(std::move(function)) {
    TERNGRAD_REQUIRE(function_ != nullptr, "[", name_, "] the function is empty");
  }
  std::string name() const override { return name_; }
  bool is_per_tensor() const override { return true; }
  void submit(const float* parameters, const WorkerGradients& gradients, const FlatRange& range, TransformCounts*,
              Stream& stream) override {
    if (stream.device().is_cuda()) throw NotSupported("[" + name_ + "] a transform by a function runs on the CPU only");
    for (const Segment& tensor : layout_.segments()) {
      if (tensor.offset < range.first || tensor.offset >= range.first + range.count) continue;
      const auto count = static_cast<std::size_t>(tensor.num_elements);
      for (int worker = 0; worker < gradients.num_workers; ++worker) {
        function_(gradients.first_worker + worker, tensor, {parameters + tensor.offset, count},
                  {gradients.buffers.of(worker) + tensor.offset, count});
      }
    }
  }

 private:
  std::string name_;
  Layout layout_;
  TensorFunction function_;
};

class NanToZero final : public GradientTransform {
 public:
  std::string name() const override { return "nan_to_zero"; }
  bool is_per_tensor() const override { return true; }
  void submit(const float*, const WorkerGradients& gradients, const FlatRange& range, TransformCounts* counts,
              Stream& stream) override {
    zero_nonfinite(gradients.buffers.from(range.first), gradients.num_workers, range.count, counts, stream);
  }
};

class WeightDecay final : public GradientTransform {
 public:
  WeightDecay(const Net& net, double decay, const Device& device)
      : decay_(static_cast<float>(decay)), is_decayed_(net.layout().flat_elements() / kFlatAlignment, device) {
    std::vector<std::uint8_t> lines(static_cast<std::size_t>(is_decayed_.num_elements()));
    for (int index = 0; index < net.layout().num_segments(); ++index) {
      if (!net.is_regularized(index)) continue;
      const FlatRange range = range_of(net.layout().segment(index));
      std::fill_n(lines.begin() + range.first / kFlatAlignment, range.count / kFlatAlignment, std::uint8_t{1});
    }
    Stream stream(device, 1);
    copy<std::uint8_t>(lines, is_decayed_.span(), stream);
    stream.synchronize();
  }
  std::string name() const override { return "weight_decay"; }
  bool is_per_tensor() const override { return true; }
  void submit(const float* parameters, const WorkerGradients& gradients, const FlatRange& range, TransformCounts*,
              Stream& stream) override {
    add_weight_decay(gradients.buffers.from(range.first), gradients.num_workers, parameters + range.first, decay_,
                     is_decayed_.data() + range.first / kFlatAlignment, range.count, stream);
  }

 private:
  float decay_;
  Buffer<std::uint8_t> is_decayed_;  // one per cache line
};

/// The tensors of all workers as one layout, so that they are measured in one launch.
Layout layout_of_workers(const Layout& layout, int num_workers) {
  Layout all;
  for (int worker = 0; worker < num_workers; ++worker) {
    for (const Segment& segment : layout.segments()) {
      all.add(std::to_string(worker) + "/" + segment.name, segment.shape);
    }
  }
  return all;
}

class ClipByGlobalNorm final : public GradientTransform {
 public:
  ClipByGlobalNorm(const Layout& layout, double max_norm, int num_workers, OnNonfinite on_nonfinite,
                   const Device& device)
      : layout_(layout),
        all_(layout_of_workers(layout, num_workers)),
        max_norm_(max_norm),
        zeroes_nonfinite_(on_nonfinite == OnNonfinite::kZero),
        plan_(whole_segments(all_), device),
        statistics_(all_.num_segments(), device),
        factors_(num_workers, device) {
    TERNGRAD_REQUIRE(max_norm > 0, "[clip_by_global_norm] the norm must be above 0, got ", max_norm);
  }
  std::string name() const override { return "clip_by_global_norm"; }
  bool is_per_tensor() const override { return false; }
  void submit(const float*, const WorkerGradients& gradients, const FlatRange& range, TransformCounts* counts,
              Stream& stream) override {
    TERNGRAD_REQUIRE(range == whole_range(layout_), "[", name(), "] needs the whole gradient, not a part of it");
    TERNGRAD_REQUIRE(gradients.num_workers == factors_.num_elements(), "[", name(), "] is made for ",
                     factors_.num_elements(), " workers, got ", gradients.num_workers);
    tensors_.clear();
    for (int worker = 0; worker < gradients.num_workers; ++worker) {
      for (const Segment& segment : layout_.segments()) {
        tensors_.push_back(gradients.buffers.of(worker) + segment.offset);
      }
    }
    plan_.run(TensorTable(all_, tensors_), statistics_.span(), stream);
    clip_factors(statistics_.data(), gradients.num_workers, layout_.num_segments(), max_norm_, zeroes_nonfinite_,
                 factors_.data(), counts, stream);
    scale_workers(gradients.buffers, gradients.num_workers, factors_.data(), layout_.flat_elements(), stream);
  }

 private:
  Layout layout_;
  Layout all_;
  double max_norm_;
  bool zeroes_nonfinite_;
  StatisticsPlan plan_;
  Buffer<Statistics> statistics_;  // [workers][tensors]
  Buffer<float> factors_;          // [workers]
  std::vector<float*> tensors_;
};

}  // namespace

void submit_all(std::span<const std::unique_ptr<GradientTransform>> transforms, const float* parameters,
                const WorkerGradients& gradients, const FlatRange& range, TransformCounts* counts, Stream& stream) {
  for (const auto& transform : transforms) transform->submit(parameters, gradients, range, counts, stream);
}

void submit_all(std::span<const std::unique_ptr<GradientTransform>> transforms, const float* parameters,
                const WorkerGradients& gradients, const TrainedTensors& trained, TransformCounts* counts,
                Stream& stream) {
  for (const auto& transform : transforms) {
    if (transform->is_per_tensor()) {
      for (const FlatRange& range : trained.ranges()) {
        transform->submit(parameters, gradients, range, counts, stream);
      }
      continue;
    }
    for (const FlatRange& range : trained.frozen_ranges()) {
      for (int worker = 0; worker < gradients.num_workers; ++worker) {
        float* const first = gradients.buffers.of(worker) + range.first;
        fill_zero(std::span(first, static_cast<std::size_t>(range.count)), stream);
      }
    }
    transform->submit(parameters, gradients, trained.whole(), counts, stream);
  }
}

void require_per_tensor(std::span<const std::unique_ptr<GradientTransform>> transforms) {
  for (const auto& transform : transforms) {
    TERNGRAD_REQUIRE(transform->is_per_tensor(), "[overlap] ", transform->name(), " needs the whole gradient");
  }
}

std::unique_ptr<GradientTransform> make_tensor_transform(const std::string& name, const Layout& layout,
                                                         TensorFunction function) {
  return std::make_unique<TensorTransform>(name, layout, std::move(function));
}

std::unique_ptr<GradientTransform> make_nan_to_zero() { return std::make_unique<NanToZero>(); }

std::unique_ptr<GradientTransform> make_weight_decay(const Net& net, double decay, const Device& device) {
  return std::make_unique<WeightDecay>(net, decay, device);
}

std::unique_ptr<GradientTransform> make_clip_by_global_norm(const Layout& layout, double max_norm, int num_workers,
                                                            OnNonfinite on_nonfinite, const Device& device) {
  return std::make_unique<ClipByGlobalNorm>(layout, max_norm, num_workers, on_nonfinite, device);
}

}  // namespace terngrad
