#include "trainers/gradient_transform.h"

#include "kernels/optimizer.h"

namespace terngrad {
namespace {

class WeightDecay final : public GradientTransform {
 public:
  WeightDecay(const Net& net, double decay) : net_(net), decay_(static_cast<float>(decay)) {}
  std::string name() const override { return "weight_decay"; }
  void apply(std::span<const float> parameters, std::span<float> gradient, Stream& stream) const override {
    for (int index = 0; index < net_.layout().num_segments(); ++index) {
      if (!net_.is_regularized(index)) continue;
      const Segment& segment = net_.layout().segment(index);
      const auto first = static_cast<std::size_t>(segment.offset);
      const auto count = static_cast<std::size_t>(segment.num_elements);
      add_weight_decay(gradient.subspan(first, count), parameters.subspan(first, count), decay_, stream);
    }
  }

 private:
  const Net& net_;
  float decay_;
};

}  // namespace

std::unique_ptr<GradientTransform> make_weight_decay(const Net& net, double decay) {
  return std::make_unique<WeightDecay>(net, decay);
}

}  // namespace terngrad
