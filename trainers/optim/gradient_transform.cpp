#include "trainers/optim/gradient_transform.h"

#include <cmath>
#include <vector>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/errors.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/transform.h"

namespace terngrad {
namespace {

class NanToZero final : public GradientTransform {
 public:
  std::string name() const override { return "nan_to_zero"; }
  TransformCounts apply(int, std::span<const float>, std::span<float> gradient, Stream& stream) override {
    return {.zeroed_elements = zero_nonfinite(gradient, stream)};
  }
  bool is_per_tensor() const override { return true; }
  TransformCounts apply_to_tensor(int, int, std::span<const float>, std::span<float> gradient,
                                  Stream& stream) override {
    return {.zeroed_elements = zero_nonfinite(gradient, stream)};
  }
};

class WeightDecay final : public GradientTransform {
 public:
  WeightDecay(const Net& net, double decay) : net_(net), decay_(static_cast<float>(decay)) {}
  std::string name() const override { return "weight_decay"; }
  TransformCounts apply(int worker, std::span<const float> parameters, std::span<float> gradient,
                        Stream& stream) override {
    for (int index = 0; index < net_.layout().num_segments(); ++index) {
      const Segment& segment = net_.layout().segment(index);
      const auto first = static_cast<std::size_t>(segment.offset);
      const auto count = static_cast<std::size_t>(segment.num_elements);
      apply_to_tensor(worker, index, parameters.subspan(first, count), gradient.subspan(first, count), stream);
    }
    return {};
  }
  bool is_per_tensor() const override { return true; }
  TransformCounts apply_to_tensor(int, int segment, std::span<const float> parameters, std::span<float> gradient,
                                  Stream& stream) override {
    if (net_.is_regularized(segment)) add_weight_decay(gradient, parameters, decay_, stream);
    return {};
  }

 private:
  const Net& net_;
  float decay_;
};

class ClipByGlobalNorm final : public GradientTransform {
 public:
  ClipByGlobalNorm(const Layout& layout, double max_norm, int num_local_workers, OnNonfinite on_nonfinite)
      : layout_(layout), max_norm_(max_norm), on_nonfinite_(on_nonfinite) {
    TERNGRAD_REQUIRE(max_norm > 0, "[clip_by_global_norm] the norm must be above 0, got ", max_norm);
    const std::vector<Slice> slices = whole_segments(layout);
    for (int worker = 0; worker < num_local_workers; ++worker) {
      workers_.push_back({StatisticsPlan(slices), std::vector<Statistics>(slices.size())});
    }
  }
  std::string name() const override { return "clip_by_global_norm"; }
  TransformCounts apply(int worker, std::span<const float>, std::span<float> gradient, Stream& stream) override {
    Workspace& workspace = workers_.at(static_cast<std::size_t>(worker));
    workspace.plan.run(TensorTable(layout_, gradient.data()), workspace.statistics, stream);
    double sum_squares = 0;
    for (const Statistics& statistics : workspace.statistics) {
      if (statistics.is_nonfinite()) {
        if (on_nonfinite_ != OnNonfinite::kZero) return {};
        continue;
      }
      sum_squares += statistics.sum_squares;
    }
    const double norm = std::sqrt(sum_squares);
    if (!(norm > max_norm_)) return {};
    scale(gradient, static_cast<float>(max_norm_ / norm), stream);
    return {.clipped_gradients = 1};
  }

 private:
  struct Workspace {
    StatisticsPlan plan;
    std::vector<Statistics> statistics;
  };
  const Layout& layout_;
  double max_norm_;
  OnNonfinite on_nonfinite_;
  std::vector<Workspace> workers_;
};

}  // namespace

TransformCounts GradientTransform::apply_to_tensor(int, int, std::span<const float>, std::span<float>, Stream&) {
  TERNGRAD_THROW(InvalidArgument, "[", name(), "] needs the whole gradient, not one tensor");
}

std::unique_ptr<GradientTransform> make_nan_to_zero() { return std::make_unique<NanToZero>(); }

std::unique_ptr<GradientTransform> make_weight_decay(const Net& net, double decay) {
  return std::make_unique<WeightDecay>(net, decay);
}

std::unique_ptr<GradientTransform> make_clip_by_global_norm(const Layout& layout, double max_norm,
                                                            int num_local_workers, OnNonfinite on_nonfinite) {
  return std::make_unique<ClipByGlobalNorm>(layout, max_norm, num_local_workers, on_nonfinite);
}

}  // namespace terngrad
