// Preprocessing as Inception is trained: a sampled box, resized, with distorted colours.
#pragma once

#include <memory>

#include "datasets/transforms/preprocessing.h"

namespace terngrad {

/// Training, with p of 0 to 255: the box that draw_sampled_box draws, resized to size x size by the method that bits 31
/// and 30 of word 0 of block 0 name (kBilinear, kNearest, kBicubic, kArea), flipped if bit 31 of word 1 is set; x = p /
/// 255, distort_colours as draw_colour_distortion draws, clamped to [0, 1]; 2 (x - 1/2). Bit 30 is the order of the
/// colours too: the original takes both from the number of a preprocessing thread, so a method comes with one order.
///
/// Evaluation: the middle 87.5 % of each side, of which (side - 0.875 side) / 2 pixels, rounded down, are cut off at
/// either end; kBilinear; clamped; 2 (x - 1/2).
///
/// Only the box is decoded, and its edges are edges to the resizing.
std::unique_ptr<Preprocessing> make_inception_preprocessing(Subset subset, int size);

}  // namespace terngrad
