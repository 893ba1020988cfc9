// Decoding all records of a subset of small images, for sets that keep them in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "datasets/formats/decoded_image.h"
#include "datasets/records/record_store.h"

namespace terngrad {

/// Receives record `record` with its stored label. Called concurrently by several threads.
using TakeImage = std::function<void(std::size_t record, std::int32_t label, const DecodedImage& image)>;

/// Decodes all records of a subset with num_threads threads.
/// @throws DataError, naming the record, for a record that is damaged, has another size, colours although channels is
/// 1, or a label outside [0, num_classes)
void read_stored_pixels(const RecordStore& store, int height, int width, int channels, int num_classes, int num_threads,
                        const TakeImage& take);

}  // namespace terngrad
