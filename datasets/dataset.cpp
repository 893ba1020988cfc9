#include "datasets/dataset.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "datasets/sets/cifar10.h"
#include "datasets/sets/image_folder.h"
#include "datasets/sets/mnist.h"
#include "datasets/sets/npy_images.h"
#include "datasets/sets/record_images.h"
#include "datasets/sets/synthetic.h"
#include "datasets/transforms/preprocessing.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr const char* kAuto = "auto";

/// What a set knows besides auto.
std::vector<std::string> no_preprocessing() { return {}; }
std::vector<std::string> padded() { return {"padded"}; }

struct DatasetEntry {
  const char* name;
  std::unique_ptr<Dataset> (*make)(const DatasetOptions& options);
  std::vector<std::string> (*preprocessing)() = no_preprocessing;
  bool is_of_records = false;
  bool can_augment = false;
};

// The registry: a new data set is one line here.
constexpr std::array kDatasets = {
    DatasetEntry{"cifar10", make_cifar10, padded, false, true},
    DatasetEntry{"flowers", make_flowers, image_preprocessing_names, true, true},
    DatasetEntry{"folder", make_image_folder},
    DatasetEntry{"imagenet", make_imagenet, image_preprocessing_names, true, true},
    DatasetEntry{"mnist", make_mnist},
    DatasetEntry{"npy", make_npy_images},
    DatasetEntry{"records", make_records, image_preprocessing_names, true, true},
    DatasetEntry{"synthetic", make_synthetic},
};

void check_options(const DatasetEntry& entry, const DatasetOptions& options) {
  const std::vector<std::string> names = entry.preprocessing();
  std::string accepted = kAuto;
  for (const std::string& name : names) accepted += ", " + name;
  TERNGRAD_REQUIRE(options.preprocessing == kAuto || std::ranges::count(names, options.preprocessing) == 1,
                   "[make_dataset] data set ", entry.name, " has no preprocessing '", options.preprocessing,
                   "', expected one of: ", accepted);
  TERNGRAD_REQUIRE(options.label_offset == 0 || entry.is_of_records, "[make_dataset] data set ", entry.name,
                   " has no label_offset; sets that are read from records do");
  TERNGRAD_REQUIRE(options.augment || entry.can_augment, "[make_dataset] data set ", entry.name, " is never augmented");
}

}  // namespace

std::vector<std::string> dataset_names() {
  std::vector<std::string> names;
  names.reserve(std::size(kDatasets));
  for (const DatasetEntry& entry : kDatasets) names.emplace_back(entry.name);
  return names;
}

std::vector<std::string> preprocessing_names() {
  std::vector<std::string> names = {kAuto, "padded"};
  std::ranges::copy(image_preprocessing_names(), std::back_inserter(names));
  return names;
}

bool can_augment(const std::string& dataset) {
  return std::ranges::any_of(kDatasets,
                             [&](const DatasetEntry& entry) { return dataset == entry.name && entry.can_augment; });
}

bool is_of_records(const std::string& dataset) {
  return std::ranges::any_of(kDatasets,
                             [&](const DatasetEntry& entry) { return dataset == entry.name && entry.is_of_records; });
}

std::unique_ptr<Dataset> make_dataset(const std::string& name, const DatasetOptions& options) {
  std::string accepted;
  for (const DatasetEntry& entry : kDatasets) {
    if (name == entry.name) {
      check_options(entry, options);
      return entry.make(options);
    }
    accepted += (accepted.empty() ? "" : ", ") + std::string(entry.name);
  }
  TERNGRAD_THROW(InvalidArgument, "[make_dataset] unknown data set '", name, "', expected one of: ", accepted);
}

}  // namespace terngrad
