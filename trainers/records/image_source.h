// ImageSource: images to be written as records.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "datasets/formats/image_example.h"
#include "datasets/records/label_names.h"

namespace terngrad {

/// The images of a subset by index. Thread-safe for reading.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual std::size_t size() const = 0;
  /// Image `index` with label, names, size and boxes. @throws DataError naming the image if it is damaged
  virtual ImageExample example(std::size_t index) const = 0;
  /// Name of image `index` for messages: its path, if it has a file.
  virtual std::string name(std::size_t index) const = 0;
  /// Text that identifies image `index` and its label, to decide if a build may be continued.
  virtual std::string key(std::size_t index) const = 0;
};

/// Both subsets of a data set.
struct ImageSources {
  std::unique_ptr<const ImageSource> train;  // null if the input has none
  std::unique_ptr<const ImageSource> test;
  LabelNames names;         // names of the stored labels; may be empty
  bool is_shuffled = true;  // true: records are in a random order; false: in the order of the source
};

}  // namespace terngrad
