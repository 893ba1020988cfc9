// Resizes images before they are written as records.
#pragma once

#include "trainers/records/image_source.h"

namespace terngrad {

/// Options of resized_images.
struct Resizing {
  int size = 0;         // maximum length of the shorter side, in pixels
  bool is_raw = false;  // store raw pixels instead of an encoded image
  int quality = 95;     // JPEG quality, libjpeg's scale from 1 to 100
};

/// The images with the shorter side reduced to `size` (resize_shorter_side), re-encoded as JPEG; smaller images keep
/// their bytes. With is_raw all images are decoded to RGB, so that training need not decode them. Labels, names, order
/// and boxes (fractions of the sides) are unchanged.
/// @throws InvalidArgument for a size outside [1, kMaxResizedSide] or a quality outside [1, 100]
ImageSources resized_images(ImageSources sources, const Resizing& resizing);

}  // namespace terngrad
