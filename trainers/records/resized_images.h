// Images made smaller before they become records.
#pragma once

#include "trainers/records/image_source.h"

namespace terngrad {

struct Resizing {
  int size = 0;         // pixels of the shorter side
  bool is_raw = false;  // the pixels themselves are stored, without a format
  int quality = 95;     // of JPEG, libjpeg's scale from 1 to 100
};

/// The same images, their shorter side shortened to `size` (resize_shorter_side) and encoded as JPEG again; one whose
/// shorter side has no more pixels than that keeps its bytes. Raw images are RGB, and each is decoded, so that training
/// need not. Labels, names, order and boxes, which are fractions of the sides, stay.
/// @throws InvalidArgument for a size outside [1, kMaxResizedSide] or a quality outside [1, 100]
ImageSources resized_images(ImageSources sources, const Resizing& resizing);

}  // namespace terngrad
