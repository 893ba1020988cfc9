// data_fingerprint: a hash that identifies a data set.
#pragma once

#include <string>

#include "datasets/dataset.h"

namespace terngrad {

/// 16 hexadecimal digits: XXH64 over the shape of the images, the number of examples and of classes, the classes' names
/// if the set has any, all labels in order of indices, and the bits of the first and the last image, both read with
/// ExampleVisit{}. It does not detect changes of other images: reading all of them would cost as much as an epoch.
/// Equal on every little-endian machine and for any number of threads.
/// @throws DataError if one of the two images is damaged
std::string data_fingerprint(const Dataset& dataset);

}  // namespace terngrad
