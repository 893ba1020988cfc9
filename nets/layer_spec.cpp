#include "nets/layer_spec.h"

#include <algorithm>

namespace terngrad {

bool has_dropout(const NetSpec& spec) {
  return std::ranges::any_of(
      spec.layers, [](const LayerSpec& layer) { return std::holds_alternative<DropoutSpec>(layer.operation); });
}

}  // namespace terngrad
