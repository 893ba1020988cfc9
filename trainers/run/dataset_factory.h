// The data sets of terngrad_train, by its options.
#pragma once

#include <memory>
#include <string>

#include "datasets/dataset.h"

namespace terngrad {

struct TrainOptions;

/// A subset, or the constant images of benchmark mode.
/// @throws UsageError for options that it refuses, DataError for missing or damaged files
std::shared_ptr<const Dataset> open_dataset(const TrainOptions& o, Subset subset);

/// The data set as the user names it, for messages.
std::string data_name(const TrainOptions& o);

/// Throws unless a net for the training set can be evaluated on the test set: better before the first step than after
/// the last one. @throws DataError that names the data set and both shapes
void check_test_set(const TrainOptions& o, const Dataset& training_set, const Dataset& test_set);

}  // namespace terngrad
