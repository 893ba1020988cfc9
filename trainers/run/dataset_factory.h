// Opens the data sets of terngrad_train.
#pragma once

#include <memory>
#include <string>

#include "datasets/dataset.h"

namespace terngrad {

struct TrainOptions;

/// Opens a subset, or the constant images of benchmark mode.
/// @throws UsageError for options that the data set refuses, DataError for missing or damaged files
std::shared_ptr<const Dataset> open_dataset(const TrainOptions& o, Subset subset);

/// Name and folder of the data set, for messages.
std::string data_name(const TrainOptions& o);

/// Checks before the first step that a net for the training set can be evaluated on the test set. @throws DataError
/// naming the data set and both shapes
void check_test_set(const TrainOptions& o, const Dataset& training_set, const Dataset& test_set);

}  // namespace terngrad
