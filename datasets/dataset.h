// Dataset: examples by index.
#pragma once

#include <cstdint>
#include <memory>
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
  std::int64_t image_elements() const { return std::int64_t{height()} * width() * channels(); }

  /// Label of example `index`, in [0, num_classes()).
  virtual std::int32_t label(std::int64_t index) const = 0;

  /// Writes example `index`, preprocessed (and in a training subset augmented, with draws that depend on `visit` and
  /// `index` only) as the net takes it.
  /// @param image  [height, width, channels] out, channels fastest
  virtual void read(std::int64_t index, const ExampleVisit& visit, std::span<float> image) const = 0;
};

struct DatasetOptions {
  std::string data_dir = "";  // folder with the set's files; not used by built-in sets
  Subset subset = Subset::kTrain;
  int image_size = 0;      // height and width the net takes; 0 = the set's own, if it has one
  std::uint64_t seed = 1;  // of procedural sets
  int num_threads = 0;     // threads used while the set is opened, 0 = num_hardware_threads(); changes no bit
};

/// Names that make_dataset accepts.
std::vector<std::string> dataset_names();

/// Opens a data set. @throws InvalidArgument for an unknown name or size, DataError for files that are missing or
/// damaged
std::unique_ptr<Dataset> make_dataset(const std::string& name, const DatasetOptions& options);

}  // namespace terngrad
