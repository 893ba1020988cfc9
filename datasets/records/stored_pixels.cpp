#include "datasets/records/stored_pixels.h"

#include <span>
#include <string>
#include <vector>

#include "datasets/formats/image_file.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"

namespace terngrad {
namespace {

DecodedImage decode(const ImageExample& example, int channels) {
  const std::span bytes(reinterpret_cast<const std::uint8_t*>(example.encoded.data()), example.encoded.size());
  if (!example.is_raw) return decode_image("image/encoded", bytes, channels);
  if (channels != 3) TERNGRAD_THROW(DataError, "expected a grey image, found a raw one, which has colours");
  return {.height = example.height,
          .width = example.width,
          .channels = 3,
          .pixels = std::vector<std::uint8_t>(bytes.begin(), bytes.end())};
}

}  // namespace

void read_stored_pixels(const RecordStore& store, int height, int width, int channels, int num_classes, int num_threads,
                        const TakeImage& take) {
  parallel_for(num_threads, static_cast<std::int64_t>(store.size()), 64, [&](std::int64_t begin, std::int64_t end) {
    for (auto record = static_cast<std::size_t>(begin); record < static_cast<std::size_t>(end); ++record) {
      const ImageExample example = store.read(record);
      try {
        if (example.label >= num_classes) {
          TERNGRAD_THROW(DataError, "image/class/label: expected 0 to ", num_classes - 1, ", found ", example.label);
        }
        const DecodedImage image = decode(example, channels);
        if (image.height != height || image.width != width) {
          TERNGRAD_THROW(DataError, "expected an image of ", height, " x ", width, ", found ", image.height, " x ",
                         image.width);
        }
        take(record, store.label(record), image);
      } catch (const DataError& error) {
        TERNGRAD_THROW(DataError, "'", store.place(record), "': ", error.what());
      } catch (const InvalidArgument& error) {
        // Colours although one channel was requested.
        TERNGRAD_THROW(DataError, "'", store.place(record), "': ", error.what());
      }
    }
  });
}

}  // namespace terngrad
