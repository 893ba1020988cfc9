// What tells one data set from another.
#pragma once

#include <string>

#include "datasets/dataset.h"

namespace terngrad {

/// 16 hexadecimal digits: XXH64 over the shape of the images, the number of examples and of classes, the classes'
/// names if the set has any, all labels in order of indices, and the bits of the first and the last image, both read
/// with ExampleVisit{}. It does not see a change of other images alone: reading them all would cost as much as an
/// epoch. Equal on every little-endian machine and for every number of threads.
/// @throws DataError if one of the two images is damaged
std::string data_fingerprint(const Dataset& dataset);

}  // namespace terngrad
