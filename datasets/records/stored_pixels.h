// The pixels of small images in records, for sets that keep them in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "datasets/formats/decoded_image.h"
#include "datasets/records/record_store.h"

namespace terngrad {

/// Takes record `record` with its stored label. Called by several threads at once.
using TakeImage = std::function<void(std::size_t record, std::int32_t label, const DecodedImage& image)>;

/// Decodes every record of a subset with num_threads threads.
/// @throws DataError, naming the record, for one that is damaged, has other sides or, where channels is 1, colours, or
/// a label that is not in [0, num_classes)
void read_stored_pixels(const RecordStore& store, int height, int width, int channels, int num_classes, int num_threads,
                        const TakeImage& take);

}  // namespace terngrad
