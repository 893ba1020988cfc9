// first_examples: restricts a data set to its first examples.
#pragma once

#include <cstdint>
#include <memory>

#include "datasets/dataset.h"

namespace terngrad {

/// A data set of the first `count` examples of `dataset`.
/// @throws InvalidArgument unless 1 <= count <= dataset->num_examples()
std::unique_ptr<Dataset> first_examples(std::unique_ptr<Dataset> dataset, std::int64_t count);

}  // namespace terngrad
