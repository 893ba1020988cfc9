#include "datasets/transforms/preprocessing.h"

#include <array>

#include "datasets/transforms/crop_preprocessing.h"
#include "datasets/transforms/inception_preprocessing.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

struct NamedPreprocessing {
  const char* name;
  int max_size;
  std::unique_ptr<Preprocessing> (*make)(Subset subset, int size);
};
constexpr std::array kPreprocessings = {
    NamedPreprocessing{"alexnet", kResizedSide, make_alexnet_preprocessing},
    NamedPreprocessing{"vgg", kResizedSide, make_vgg_preprocessing},
    NamedPreprocessing{"inception", kMaxPreprocessedSize, make_inception_preprocessing},
    NamedPreprocessing{"standard", kMaxPreprocessedSize, make_standard_preprocessing},
    NamedPreprocessing{"torchvision", kMaxPreprocessedSize, make_torchvision_preprocessing},
};

}  // namespace

std::unique_ptr<Preprocessing> make_preprocessing(const std::string& name, Subset subset, int size) {
  for (const NamedPreprocessing& known : kPreprocessings) {
    if (name != known.name) continue;
    TERNGRAD_REQUIRE(size >= kMinPreprocessedSize && size <= known.max_size, "[make_preprocessing] size of '", name,
                     "' must be in [", kMinPreprocessedSize, ", ", known.max_size, "], got ", size);
    return known.make(subset, size);
  }
  std::string names;
  for (const NamedPreprocessing& known : kPreprocessings) names += std::string(names.empty() ? "" : ", ") + known.name;
  TERNGRAD_THROW(InvalidArgument, "[make_preprocessing] unknown preprocessing '", name, "': expected one of ", names);
}

std::vector<std::string> image_preprocessing_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kPreprocessings));
  for (const NamedPreprocessing& known : kPreprocessings) names.emplace_back(known.name);
  return names;
}

}  // namespace terngrad
