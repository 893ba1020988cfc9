// Dataset: examples by index.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace terngrad {

enum class Subset { kTrain, kTest };

/// What one visit to an example draws its augmentation from. Equal visits give equal images.
struct ExampleVisit {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

/// Images in memory of which a set's read() takes windows, for a device that does the same: example i is
/// standardize_crop (datasets/transforms/augmentation.h) of planar(i), with the window that draw_augmentation draws for
/// visit and i where is_augmented, else the middle one (offsets (source_size - height()) / 2) as it is. height() =
/// width() and channels() = 3.
struct CropSource {
  int source_size = 0;        // height and width of a stored image
  bool is_augmented = false;  // by draws that depend on the visit
  /// Bytes of image `index`, [3, source_size, source_size], in memory of the set.
  std::function<std::span<const std::uint8_t>(std::int64_t index)> planar;
};

/// A labelled image set. Implementations are safe to read from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const std::string& name() const = 0;
  virtual std::int64_t num_examples() const = 0;
  virtual int height() const = 0;
  virtual int width() const = 0;
  virtual int channels() const = 0;
  virtual int num_classes() const = 0;
  /// Names of the classes by label, of a set whose files say them; else none.
  virtual std::vector<std::string> class_names() const { return {}; }
  std::int64_t image_elements() const { return std::int64_t{height()} * width() * channels(); }

  /// Label of example `index`, in [0, num_classes()).
  virtual std::int32_t label(std::int64_t index) const = 0;

  /// Writes example `index`, preprocessed (and in a training subset augmented, with draws that depend on `visit` and
  /// `index` only) as the net takes it.
  /// @param image  [height, width, channels] out, channels fastest
  virtual void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const = 0;

  /// Says that read() will be called for example `index` soon, so that what it needs may be fetched from a disk
  /// meanwhile. Returns at once; changes nothing that read() gives.
  virtual void will_read(std::int64_t /*index*/) const {}

  /// Examples of each of the files that the set is spread over, in the order of their indices; a window shuffle reads
  /// these files from their first example to their last. Empty: there are no such files.
  virtual std::vector<std::int64_t> shard_sizes() const { return {}; }

  /// Whether what read() writes depends on the visit. A set that says no may be read once and kept.
  virtual bool is_augmented() const { return true; }

  /// The images that read() takes windows of, if it does nothing else. What it refers to lives as long as the set.
  virtual std::optional<CropSource> crop_source() const { return std::nullopt; }
};

/// How the examples of an epoch are ordered.
struct ShuffleOptions {
  enum class Kind {
    kExact,   // epoch_permutation (datasets/shuffle.h): every order is equally likely
    kWindow,  // window_permutation, for sets on disks that are slow to seek
  };
  Kind kind = Kind::kExact;
  int num_readers = 4;          // of a window shuffle: shards that are read at once
  std::int64_t window = 16384;  // of it: examples out of which each next one is drawn
  friend bool operator==(const ShuffleOptions&, const ShuffleOptions&) = default;
};

struct DatasetOptions {
  std::string data_dir = "";  // folder with the set's files; not used by built-in sets
  Subset subset = Subset::kTrain;
  int image_size = 0;                  // height and width the net takes; 0 = the set's own, if it has one
  std::string preprocessing = "auto";  // one of preprocessing_names(); auto: the set's own
  bool augment = true;                 // false: training images are read as those of the test subset
  int label_offset = 0;                // added to the labels of sets that are read from records
  std::uint64_t seed = 1;              // of procedural sets
  int num_threads = 0;  // threads used while the set is opened, 0 = num_hardware_threads(); changes no bit
};

/// Names that make_dataset accepts.
std::vector<std::string> dataset_names();

/// Ways in which images become what nets take. Each set has its own, auto; besides it cifar10 knows `padded`
/// (datasets/transforms/padded_crop.h), and sets that are read from records (datasets/sets/record_images.h) know those
/// of datasets/transforms/preprocessing.h.
std::vector<std::string> preprocessing_names();

/// Whether a set's training images are augmented, as far as DatasetOptions::augment lets them be.
bool can_augment(const std::string& dataset);

/// Whether a set is made by this library, and has no files.
bool is_built_in(const std::string& dataset);

/// Whether a set is read from records: it knows the preprocessings of datasets/transforms/preprocessing.h, and takes a
/// label_offset.
bool is_of_records(const std::string& dataset);

/// Opens a data set. @throws InvalidArgument for an unknown name or size, or a preprocessing that the set does not
/// know; DataError for files that are missing or damaged
std::unique_ptr<Dataset> make_dataset(const std::string& name, const DatasetOptions& options);

}  // namespace terngrad
