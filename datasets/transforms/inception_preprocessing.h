// Preprocessing of Inception: a sampled box, resized, with distorted colours.
#pragma once

#include <memory>

#include "datasets/transforms/preprocessing.h"

namespace terngrad {

/// Training, with p in 0 to 255: the box of draw_sampled_box is resized to size x size by the method given by bits 31
/// and 30 of word 0 of block 0 (kBilinear, kNearest, kBicubic, kArea) and flipped if bit 31 of word 1 is set; then x =
/// p / 255, distort_colours with draw_colour_distortion, clamped to [0, 1]; 2 (x - 1/2). Bit 30 also selects the order
/// of colour operations, so that each method has one order: the original derives both from the preprocessing thread.
///
/// Evaluation: the central 87.5 % of each side, with (side - 0.875 side) / 2 pixels, rounded down, cropped at either
/// end; kBilinear; clamped; 2 (x - 1/2).
///
/// Only the box is decoded; resizing does not use pixels outside.
std::unique_ptr<Preprocessing> make_inception_preprocessing(Subset subset, int size);

}  // namespace terngrad
