#include "trainers/run/dataset_factory.h"

#include <fmt/format.h>

#include "datasets/formats/input_file.h"
#include "datasets/sets/constant_images.h"
#include "kernels/runtime/errors.h"
#include "trainers/launch/out_of_memory.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

bool is_data_folder(const std::string& data_dir) {
  try {
    return is_folder(data_dir);
  } catch (const DataError& error) {
    TERNGRAD_THROW(UsageError, "--data_dir: ", error.what());
  }
}

std::string shape_text(const Dataset& dataset) {
  return fmt::format("images of {}x{}x{} in {} classes", dataset.height(), dataset.width(), dataset.channels(),
                     dataset.num_classes());
}

}  // namespace

std::string data_name(const TrainOptions& o) {
  return o.dataset + (o.data_dir.empty() ? "" : " in '" + o.data_dir + "'");
}

std::shared_ptr<const Dataset> open_dataset(const TrainOptions& o, Subset subset) {
  if (o.benchmark_mode) {
    try {
      return make_constant_images(o.dataset, o.image_size, o.seed);
    } catch (const InvalidArgument& error) {
      TERNGRAD_THROW(UsageError, "--benchmark_mode: ", error.what());
    }
  }
  if (!o.data_dir.empty() && !is_data_folder(o.data_dir)) {
    TERNGRAD_THROW(UsageError, "--data_dir ", o.data_dir, ": there is no such folder");
  }
  DatasetOptions options;
  options.data_dir = o.data_dir;
  options.subset = subset;
  options.image_size = o.image_size;
  options.preprocessing = preprocessing_of(o.dataset, o.net, o.preprocessing);
  options.augment = o.augment == Augment::kOn;
  options.label_offset = o.label_offset;
  options.num_threads = num_threads(o);
  try {
    return say_when_out_of_memory("opening data set " + data_name(o), [&] { return make_dataset(o.dataset, options); });
  } catch (const InvalidArgument& error) {
    throw UsageError(error.what());
  }
}

void check_test_set(const TrainOptions& o, const Dataset& training_set, const Dataset& test_set) {
  const std::string training = shape_text(training_set);
  const std::string test = shape_text(test_set);
  if (training == test) return;
  TERNGRAD_THROW(DataError, "data set ", data_name(o), ": the training set has ", training, ", the test set ", test,
                 "; both must have the same");
}

}  // namespace terngrad
