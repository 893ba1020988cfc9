#include "datasets/dataset.h"

#include <array>

#include "datasets/sets/cifar10.h"
#include "datasets/sets/image_folder.h"
#include "datasets/sets/mnist.h"
#include "datasets/sets/npy_images.h"
#include "datasets/sets/synthetic.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kPadded = "padded";

struct DatasetEntry {
  const char* name;
  std::unique_ptr<Dataset> (*make)(const DatasetOptions& options);
  const char* preprocessing = kAuto;  // what it knows besides auto
};

// The registry: a new data set is one line here.
constexpr std::array kDatasets = {
    DatasetEntry{"cifar10", make_cifar10, kPadded},
    DatasetEntry{"folder", make_image_folder},
    DatasetEntry{"mnist", make_mnist},
    DatasetEntry{"npy", make_npy_images},
    DatasetEntry{"synthetic", make_synthetic},
};

}  // namespace

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kDatasets));
  for (const DatasetEntry& entry : kDatasets) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> preprocessing_names() { return {kAuto, kPadded}; }

std::unique_ptr<Dataset> make_dataset(const std::string& name, const DatasetOptions& options) {
  std::string accepted;
  for (const DatasetEntry& entry : kDatasets) {
    if (name == entry.name) {
      TERNGRAD_REQUIRE(options.preprocessing == kAuto || options.preprocessing == entry.preprocessing,
                       "[make_dataset] data set ", name, " has no preprocessing '", options.preprocessing,
                       "', expected ", kAuto,
                       entry.preprocessing == kAuto ? "" : std::string(" or ") + entry.preprocessing);
      return entry.make(options);
    }
    accepted += (accepted.empty() ? "" : ", ") + std::string(entry.name);
  }
  TERNGRAD_THROW(InvalidArgument, "[make_dataset] unknown data set '", name, "', expected one of: ", accepted);
}

}  // namespace terngrad
