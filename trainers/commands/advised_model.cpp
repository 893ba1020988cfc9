#include "trainers/commands/advised_model.h"

#include <vector>

#include "datasets/sets/constant_images.h"
#include "kernels/runtime/errors.h"
#include "nets/net.h"
#include "trainers/command_line/option_set.h"
#include "trainers/options/dataset_recipes.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

AdvisedModel make_net_model(const AdvisedModelOptions& o) {
  TrainOptions recipe;  // for the defaults of the data set and the net
  OptionSet recipe_options("");
  declare_train_options(recipe_options, recipe);
  std::vector<const char*> words = {"terngrad_train", "--dataset", o.dataset.c_str()};
  if (!o.net.empty()) words.insert(words.end(), {"--net", o.net.c_str()});
  recipe_options.parse(static_cast<int>(words.size()), words.data());
  apply_dataset_defaults(recipe_options, recipe);
  const auto images =
      make_constant_images(o.dataset, o.image_size == 0 ? recipe.image_size : o.image_size, recipe.seed);
  AdvisedModel model{.name = recipe.net,
                     .layout = {},
                     .spec = net_spec(recipe.net),
                     .shape = {images->height(), images->width(), o.channels == 0 ? images->channels() : o.channels},
                     .num_classes = o.num_classes == 0 ? images->num_classes() : o.num_classes,
                     .batch_size = o.batch_size == 0 ? recipe.batch_size : o.batch_size};
  model.layout = plan_net(model.spec, model.shape, model.num_classes).layout;
  return model;
}

}  // namespace

AdvisedModel make_advised_model(const AdvisedModelOptions& o) {
  if (!o.layout.empty()) return {.name = o.layout, .layout = net_layout(o.layout)};
  try {
    return make_net_model(o);
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

}  // namespace terngrad
