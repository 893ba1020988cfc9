// A gradient transform for tests that changes each tensor on the CPU.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/tensor/layout.h"
#include "trainers/optim/flat_range.h"
#include "trainers/optim/gradient_transform.h"
#include "trainers/optim/transform_counts.h"
#include "trainers/optim/worker_gradients.h"

namespace terngrad::testing {

/// Calls change(segment, gradient) for each tensor of each worker that lies in the submitted range.
class TensorTransform final : public GradientTransform {
 public:
  using Change = std::function<void(int segment, std::span<float> gradient)>;

  /// @param layout  outlives the transform
  TensorTransform(const Layout& layout, Change change) : layout_(layout), change_(std::move(change)) {}
  std::string name() const override { return "test"; }
  bool is_per_tensor() const override { return true; }
  void submit(const float*, const WorkerGradients& gradients, const FlatRange& range, TransformCounts*,
              Stream&) override {
    for (int worker = 0; worker < gradients.num_workers; ++worker) {
      for (int index = 0; index < layout_.num_segments(); ++index) {
        const Segment& segment = layout_.segment(index);
        if (segment.offset < range.first || segment.offset >= range.first + range.count) continue;
        change_(index, {gradients.buffers.of(worker) + segment.offset, static_cast<std::size_t>(segment.num_elements)});
      }
    }
  }

 private:
  const Layout& layout_;
  Change change_;
};

/// A list with this transform only.
inline std::vector<std::unique_ptr<GradientTransform>> only_transform(const Layout& layout,
                                                                      TensorTransform::Change change) {
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  transforms.push_back(std::make_unique<TensorTransform>(layout, std::move(change)));
  return transforms;
}

}  // namespace terngrad::testing
