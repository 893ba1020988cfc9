// transformed_images: a data set whose images a function of the caller's changes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "datasets/dataset.h"

namespace terngrad {

/// Changes an image in place after Dataset::read. Its draws must depend on `visit` and `index` only, as
/// Dataset::read's; threads call it at once.
/// @param image  [height, width, channels]
using ImageTransform = std::function<void(std::int64_t index, const ExampleVisit& visit, std::span<float> image)>;

/// A data set of the images of `dataset`, transformed. On GPUs too, the CPU reads them: they are not cropped there.
/// @param is_augmented  false: the transform does not depend on the visit, so that images may be cached
/// @throws InvalidArgument for no data set or an empty function
std::unique_ptr<Dataset> transformed_images(std::shared_ptr<const Dataset> dataset, ImageTransform transform,
                                            bool is_augmented);

}  // namespace terngrad
