#include "datasets/sets/record_images.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "datasets/records/label_names.h"
#include "datasets/records/record_store.h"
#include "datasets/transforms/preprocessing.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Range of a set's stored labels, and their offset.
struct LabelRange {
  std::int32_t first = 0;
  std::int32_t last = 0;
  std::int32_t offset = 0;  // added to stored labels
  int num_classes() const { return last + offset + 1; }
};

/// Calls `open` and prefixes its error messages, which name files, with the set's name.
template <class Open>
auto of_set(const char* set, const Open& open) {
  try {
    return open();
  } catch (const DataError& error) {
    TERNGRAD_THROW(DataError, "[", set, "] ", error.what());
  }
}

class RecordImages final : public Dataset {
 public:
  RecordImages(const char* name, std::unique_ptr<const RecordStore> store, LabelRange labels, LabelNames names,
               std::unique_ptr<const Preprocessing> preprocessing, int image_size)
      : name_(name),
        store_(std::move(store)),
        labels_(labels),
        names_(std::move(names)),
        preprocessing_(std::move(preprocessing)),
        image_size_(image_size) {}

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override { return static_cast<std::int64_t>(store_->size()); }
  int height() const override { return image_size_; }
  int width() const override { return image_size_; }
  int channels() const override { return 3; }
  int num_classes() const override { return labels_.num_classes(); }

  std::vector<std::string> class_names() const override {
    if (names_.empty()) return {};
    std::vector<std::string> names(static_cast<std::size_t>(num_classes()));
    for (const auto& [label, name] : names_) {
      const std::int32_t at = label + labels_.offset;
      if (at >= 0 && at < num_classes()) names[static_cast<std::size_t>(at)] = name;
    }
    return names;
  }

  std::int32_t label(std::int64_t index) const override { return store_->label(record(index)) + labels_.offset; }

  void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const override {
    of_set(name_.c_str(), [&] {
      const std::size_t at = record(index);
      const ImageExample example = store_->read(at);
      preprocessing_->run(
          {.name = store_->place(at),
           .bytes = {reinterpret_cast<const std::uint8_t*>(example.encoded.data()), example.encoded.size()},
           .is_raw = example.is_raw,
           .height = example.height,
           .width = example.width,
           .boxes = example.boxes},
          visit, index, image);
    });
  }

  void will_read(std::int64_t index) const override { store_->will_read(record(index)); }
  std::vector<std::int64_t> shard_sizes() const override { return store_->shard_sizes(); }

  bool is_augmented() const override { return preprocessing_->is_augmented(); }
  /// The index.

 private:
  std::size_t record(std::int64_t index) const {
    TERNGRAD_REQUIRE(index >= 0 && index < num_examples(), "[", name_, "] example index must be in [0, ",
                     num_examples(), "), got ", index);
    return static_cast<std::size_t>(index);
  }

  std::string name_;
  std::unique_ptr<const RecordStore> store_;
  LabelRange labels_;
  LabelNames names_;
  std::unique_ptr<const Preprocessing> preprocessing_;
  int image_size_;
};

std::int32_t min_label(const RecordStore& store) {
  return std::ranges::min(store.index().records(), {}, &RecordPlace::label).label;
}

std::int32_t max_label(const RecordStore& store) {
  return std::ranges::max(store.index().records(), {}, &RecordPlace::label).label;
}

/// @throws DataError, naming the first record with a label outside `range`
void check_labels(const RecordStore& store, const LabelRange& range) {
  for (std::size_t i = 0; i < store.size(); ++i) {
    if (store.label(i) >= range.first && store.label(i) <= range.last) continue;
    TERNGRAD_THROW(DataError, "'", store.place(i), "': image/class/label: expected ", range.first, " to ", range.last,
                   ", found ", store.label(i));
  }
}

void check_options(const char* set, const DatasetOptions& options) {
  TERNGRAD_REQUIRE(!options.data_dir.empty(), "[", set, "] needs data_dir, the folder with its shards");
  TERNGRAD_REQUIRE(options.image_size >= 1, "[", set, "] image_size must be given (images may have any size, a net ",
                   "takes one), got ", options.image_size);
  TERNGRAD_REQUIRE(options.num_threads >= 0, "[", set, "] num_threads must not be negative, got ", options.num_threads);
}

/// @param labels_of  returns the LabelRange for (the subset's records, names of labels.txt)
template <class LabelsOf>
std::unique_ptr<Dataset> make_record_images(const char* set, const DatasetOptions& options, const LabelsOf& labels_of) {
  check_options(set, options);
  const std::string preprocessing = options.preprocessing == "auto" ? "standard" : options.preprocessing;
  auto transform =
      make_preprocessing(preprocessing, options.augment ? options.subset : Subset::kTest, options.image_size);
  return of_set(set, [&]() -> std::unique_ptr<Dataset> {
    const int num_threads = options.num_threads > 0 ? options.num_threads : num_hardware_threads();
    auto store = std::make_unique<const RecordStore>(options.data_dir, options.subset, num_threads);
    LabelNames names = read_label_names(options.data_dir).value_or(LabelNames());
    LabelRange labels = labels_of(*store, names, num_threads);
    check_labels(*store, labels);
    const int min_offset = -(labels.first + labels.offset);
    TERNGRAD_REQUIRE(options.label_offset >= min_offset && options.label_offset <= kMaxImageLabel, "[", set,
                     "] label_offset must be from ", min_offset, " to ", kMaxImageLabel, " here, got ",
                     options.label_offset);
    labels.offset += options.label_offset;
    return std::make_unique<RecordImages>(set, std::move(store), labels, std::move(names), std::move(transform),
                                          options.image_size);
  });
}

}  // namespace

std::unique_ptr<Dataset> make_imagenet(const DatasetOptions& options) {
  return make_record_images("imagenet", options, [](const RecordStore&, const LabelNames&, int) {
    return LabelRange{.first = 1, .last = 1000};
  });
}

std::unique_ptr<Dataset> make_flowers(const DatasetOptions& options) {
  return make_record_images("flowers", options, [](const RecordStore& store, const LabelNames&, int) {
    if (min_label(store) == 0) return LabelRange{.first = 0, .last = 4, .offset = 1};
    if (max_label(store) >= 5) return LabelRange{.first = 1, .last = 5};
    TERNGRAD_THROW(DataError, "labels are ", min_label(store), " to ", max_label(store),
                   ": expected 1 to 5, or 0 to 4 as slim stores them, and one of 0 and 5 to tell which");
  });
}

std::unique_ptr<Dataset> make_records(const DatasetOptions& options) {
  return make_record_images(
      "records", options, [&](const RecordStore& store, const LabelNames& names, int num_threads) {
        LabelRange range{.first = std::clamp(-options.label_offset, 0, kMaxImageLabel), .last = 0};
        if (!names.empty()) {
          range.last = names.rbegin()->first;
        } else if (options.subset == Subset::kTrain) {
          range.last = max_label(store);
        } else {
          range.last = max_label(RecordStore(options.data_dir, Subset::kTrain, num_threads));
        }
        if (range.last > kMaxImageLabel) {
          TERNGRAD_THROW(DataError, "the largest label of the training subset is ", range.last, ", expected at most ",
                         kMaxImageLabel);
        }
        return range;
      });
}

}  // namespace terngrad
