#include "trainers/options/transform_choice.h"

#include "trainers/options/train_options.h"

namespace terngrad {

std::vector<std::unique_ptr<GradientTransform>> make_transforms(const TrainOptions& o, const Net& net, int num_workers,
                                                                const Device& device) {
  std::vector<std::unique_ptr<GradientTransform>> transforms;
  if (o.nan_to_zero) transforms.push_back(make_nan_to_zero());
  if (o.weight_decay > 0) transforms.push_back(make_weight_decay(net, o.weight_decay, device));
  if (o.clip_by_global_norm > 0) {
    transforms.push_back(
        make_clip_by_global_norm(net.layout(), o.clip_by_global_norm, num_workers, o.on_nonfinite, device));
  }
  return transforms;
}

}  // namespace terngrad
