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
#include "datasets/sets/synthetic224.h"
#include "datasets/transforms/preprocessing.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr const char* kAuto = "auto";

/// Preprocessings besides auto.
std::vector<std::string> no_preprocessing() { return {}; }
std::vector<std::string> padded() { return {"padded"}; }

struct DatasetEntry {
  const char* name;
  std::unique_ptr<Dataset> (*make)(const DatasetOptions& options);
  std::vector<std::string> (*preprocessing)() = no_preprocessing;
  bool is_of_records = false;
  bool can_augment = false;
  bool is_built_in = false;
};

/// Entry of a set that is read from records.
constexpr DatasetEntry record_entry(const char* name, std::unique_ptr<Dataset> (*make)(const DatasetOptions&)) {
  return {.name = name,
          .make = make,
          .preprocessing = image_preprocessing_names,
          .is_of_records = true,
          .can_augment = true};
}

// Registry: a new data set takes one line here.
constexpr std::array kDatasets = {
    DatasetEntry{.name = "cifar10", .make = make_cifar10, .preprocessing = padded, .can_augment = true},
    record_entry("flowers", make_flowers),
    DatasetEntry{"folder", make_image_folder},
    record_entry("imagenet", make_imagenet),
    DatasetEntry{"mnist", make_mnist},
    DatasetEntry{"npy", make_npy_images},
    record_entry("records", make_records),
    DatasetEntry{.name = "synthetic", .make = make_synthetic, .is_built_in = true},
    DatasetEntry{.name = "synthetic224", .make = make_synthetic224, .is_built_in = true},
};

bool is_set_with(const std::string& dataset, bool DatasetEntry::*property) {
  return std::ranges::any_of(kDatasets,
                             [&](const DatasetEntry& entry) { return dataset == entry.name && entry.*property; });
}

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

bool can_augment(const std::string& dataset) { return is_set_with(dataset, &DatasetEntry::can_augment); }
bool is_of_records(const std::string& dataset) { return is_set_with(dataset, &DatasetEntry::is_of_records); }
bool is_built_in(const std::string& dataset) { return is_set_with(dataset, &DatasetEntry::is_built_in); }

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
