// Small record files for tests.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "datasets/dataset.h"
#include "datasets/formats/image_example.h"
#include "datasets/formats/png_image.h"
#include "datasets/formats/tfrecord.h"
#include "datasets/records/shards.h"
#include "tests/datasets/data_files.h"

namespace terngrad {

/// A single-colour image; the colour identifies it.
inline DecodedImage plain_image(int height, int width, int channels, int value) {
  return {.height = height,
          .width = width,
          .channels = channels,
          .pixels = Bytes(static_cast<std::size_t>(height * width * channels), static_cast<std::uint8_t>(value))};
}

/// A PNG image of 12 x 10 with all pixels `value`.
inline ImageExample png_example(std::int32_t label, int value) {
  return {.encoded = encode_png(plain_image(12, 10, 3, value)), .height = 12, .width = 10, .label = label};
}

/// Writes shards of a subset, each with the given records.
inline void write_shards(const TemporaryFolder& folder, Subset subset,
                         const std::vector<std::vector<ImageExample>>& shards) {
  for (std::size_t s = 0; s < shards.size(); ++s) {
    std::string bytes;
    for (const ImageExample& example : shards[s]) bytes += tfrecord(serialize_image_example(example));
    folder.write(shard_name(subset, static_cast<int>(s), static_cast<int>(shards.size())),
                 Bytes(bytes.begin(), bytes.end()));
  }
}

inline void damage(const std::filesystem::path& path, std::streamoff at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 0x40));
}

}  // namespace terngrad
