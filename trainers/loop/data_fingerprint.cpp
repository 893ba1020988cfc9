#include "trainers/loop/data_fingerprint.h"

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "trainers/io/xxhash64.h"

namespace terngrad {

std::string data_fingerprint(const Dataset& dataset) {
  Xxhash64 hash;
  for (const std::int64_t number :
       {std::int64_t{dataset.height()}, std::int64_t{dataset.width()}, std::int64_t{dataset.channels()},
        dataset.num_examples(), std::int64_t{dataset.num_classes()}}) {
    hash.add(static_cast<std::uint64_t>(number));
  }
  for (const std::string& name : dataset.class_names()) {
    hash.add(std::uint64_t{name.size()});
    hash.add(std::as_bytes(std::span(name)));
  }
  for (std::int64_t index = 0; index < dataset.num_examples(); ++index) {
    hash.add(static_cast<std::uint64_t>(dataset.label(index)));
  }
  if (dataset.num_examples() > 0) {
    std::vector<float> image(static_cast<std::size_t>(dataset.image_elements()));
    for (const std::int64_t index : {std::int64_t{0}, dataset.num_examples() - 1}) {
      dataset.read(index, ExampleVisit{}, image);
      hash.add(std::as_bytes(std::span(image)));
    }
  }
  return fmt::format("{:016x}", hash.value());
}

}  // namespace terngrad
