// FirstExamples: the beginning of a data set.
#pragma once

#include <cstdint>
#include <memory>

#include "datasets/dataset.h"

namespace terngrad {

/// The first `count` examples of `dataset`, which it owns.
/// @throws InvalidArgument unless 1 <= count <= dataset->num_examples()
std::unique_ptr<Dataset> first_examples(std::unique_ptr<Dataset> dataset, std::int64_t count);

}  // namespace terngrad
