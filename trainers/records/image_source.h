// ImageSource: images that are to become records.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "datasets/formats/image_example.h"
#include "datasets/records/label_names.h"

namespace terngrad {

/// The images of a subset by their number. Safe to read from several threads.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  virtual std::size_t size() const = 0;
  /// Image `index` with label, names, sides and boxes. @throws DataError, naming the image, if it is damaged
  virtual ImageExample example(std::size_t index) const = 0;
  /// Image `index` for messages: its file with its folder, where it has one.
  virtual std::string name(std::size_t index) const = 0;
  /// What tells image `index` from others, its label included: whether a build may be continued.
  virtual std::string key(std::size_t index) const = 0;
};

/// Both subsets of a set.
struct ImageSources {
  std::unique_ptr<const ImageSource> train;  // null where the input has none
  std::unique_ptr<const ImageSource> test;
  LabelNames names;         // of labels as they are stored; may be empty
  bool is_shuffled = true;  // records come in an order that is drawn, else in that of the source
};

}  // namespace terngrad
