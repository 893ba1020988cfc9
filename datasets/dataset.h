// Dataset: interface of labelled image sets, with access by index.
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

/// Key of the draws that augment an example. Equal visits give equal images.
struct ExampleVisit {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

/// Stored images whose windows are the set's examples, so that a GPU can crop them: read() of example i equals
/// standardize_crop (datasets/transforms/augmentation.h) of planar(i), with the window that draw_augmentation draws for
/// visit and i if is_augmented, else the unchanged centre window (offsets (source_size - height()) / 2). height() =
/// width() and channels() = 3.
struct CropSource {
  int source_size = 0;        // height and width of a stored image
  bool is_augmented = false;  // windows, flips and contrast are drawn per visit
  /// Bytes of image `index`, [3, source_size, source_size], owned by the set.
  std::function<std::span<const std::uint8_t>(std::int64_t index)> planar;
};

/// A labelled image set. Implementations can be read by several threads concurrently.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const std::string& name() const = 0;
  virtual std::int64_t num_examples() const = 0;
  virtual int height() const = 0;
  virtual int width() const = 0;
  virtual int channels() const = 0;
  virtual int num_classes() const = 0;
  /// Class names by label, if the set's files contain them; else empty.
  virtual std::vector<std::string> class_names() const { return {}; }
  std::int64_t image_elements() const { return std::int64_t{height()} * width() * channels(); }

  /// Label of example `index`, in [0, num_classes()).
  virtual std::int32_t label(std::int64_t index) const = 0;

  /// Writes example `index`, preprocessed for the net and in a training subset augmented, with draws that depend on
  /// `visit` and `index` only.
  /// @param image  [height, width, channels] out, channels fastest
  virtual void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const = 0;

  /// Prefetch hint: read() will be called for example `index` soon. Returns at once, and does not change results.
  virtual void will_read(std::int64_t /*index*/) const {}

  /// Number of examples in each shard file, in order of indices; a window shuffle reads shards sequentially. Empty for
  /// sets without shards.
  virtual std::vector<std::int64_t> shard_sizes() const { return {}; }

  /// False if read() does not depend on the visit, so that images may be cached.
  virtual bool is_augmented() const { return true; }

  /// The stored images, if read() only takes windows of them as CropSource says. Refers to memory of the set.
  virtual std::optional<CropSource> crop_source() const { return std::nullopt; }
};

/// Order of the examples in an epoch.
struct ShuffleOptions {
  enum class Kind {
    kExact,   // epoch_permutation (datasets/shuffle.h): all orders are equally likely
    kWindow,  // window_permutation, for disks with slow seeks
  };
  Kind kind = Kind::kExact;
  int num_readers = 4;          // window shuffle: number of shards read concurrently
  std::int64_t window = 16384;  // window shuffle: number of examples from which the next one is drawn
  /// Batches of a caller's own, in place of `kind`: the index of the example at a place of a step's batch, in [0, batch
  /// size) over all workers, or over the process's if it has its own data shard. It depends on its arguments only, and
  /// threads call it at once, ahead of the steps and beyond the last one. An example that comes more than once within
  /// num_examples() places, of one epoch, is augmented alike.
  std::function<std::int64_t(std::uint64_t step, std::int64_t place)> example_at = {};
};

/// Options of make_dataset.
struct DatasetOptions {
  std::string data_dir = "";  // folder with the set's files; not used by built-in sets
  Subset subset = Subset::kTrain;
  int image_size = 0;                  // height and width of the net's input; 0 = the set's default, if it has one
  std::string preprocessing = "auto";  // one of preprocessing_names(); auto: the set's own
  bool augment = true;                 // false: training images are read like test images
  int label_offset = 0;                // added to the labels of sets read from records
  std::uint64_t seed = 1;              // for procedural sets
  int num_threads = 0;                 // threads that open the set, 0 = num_hardware_threads(); does not change results
};

/// Names that make_dataset accepts.
std::vector<std::string> dataset_names();

/// Names of preprocessings. Each set has a default, `auto`; cifar10 also has `padded`
/// (datasets/transforms/padded_crop.h), and sets read from records (datasets/sets/record_images.h) have those of
/// datasets/transforms/preprocessing.h.
std::vector<std::string> preprocessing_names();

/// True if the set augments training images when DatasetOptions::augment is set.
bool can_augment(const std::string& dataset);

/// True if the set is generated by this library and has no files.
bool is_built_in(const std::string& dataset);

/// True if the set is read from records: it has the preprocessings of datasets/transforms/preprocessing.h and a
/// label_offset.
bool is_of_records(const std::string& dataset);

/// Opens a data set. @throws InvalidArgument for an unknown name, an invalid size or a preprocessing that the set does
/// not have; DataError for files that are missing or damaged
std::unique_ptr<Dataset> make_dataset(const std::string& name, const DatasetOptions& options);

}  // namespace terngrad
