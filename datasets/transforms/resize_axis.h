// One axis of resizing an image: which source pixels a target pixel is made of, and their weights.
#pragma once

#include <cstdint>
#include <vector>

namespace terngrad {

/// How a target pixel i comes from source pixels j; s = source pixels per target pixel. The first four are TensorFlow
/// 1's (tf.image.resize_images without align_corners), whose pixels are points and which does not antialias:
///   kBilinear     x = s i in float; the pixels floor(x) and the next, weighted by 1 - (x - floor(x)) and x - floor(x)
///   kNearest      the pixel floor(x)
///   kBicubic      Keys' kernel with a = -0.75 over the pixels floor(x) - 1 to floor(x) + 2, at x - floor(x) rounded to
///                 1/1024, half to even
///   kArea         the mean over [s i, s (i + 1)), a pixel covering [j, j + 1), exact
///   kAntialiased  Pillow's and torchvision's bilinear: weights max(0, 1 - |j + 0.5 - (i + 0.5) s| / max(1, s)),
///                 divided by their sum
/// A pixel beyond the edge is the one at the edge; the last method leaves it out.
enum class ResizeMethod : std::uint8_t { kBilinear, kNearest, kBicubic, kArea, kAntialiased };

/// Part of a resized axis.
struct ResizedRange {
  int from = 0;          // source pixels of the axis
  int to = 0;            // target pixels of the axis
  int first = 0;         // target pixel kept first
  int count = 0;         // target pixels kept
  bool flip = false;     // the last kept comes first
  int source_first = 0;  // where the axis begins in a larger image; added to source positions
};

/// Target pixel i is the sum over t < taps of weights[i * taps + t] times source pixel first[i] + t, in this order.
/// Where a pixel is made of fewer, weights are 0.
struct ResizeAxis {
  int taps = 0;
  std::vector<int> first = {};
  std::vector<float> weights = {};

  int num_targets() const { return static_cast<int>(first.size()); }
  /// The source pixels that any target pixel needs: [begin, end).
  int begin = 0;
  int end = 0;
};

/// Weights are computed in double (positions of the methods that say so in float) and rounded once: equal calls give
/// equal bits on every machine.
/// @param axis  out; its memory is used again
/// @throws InvalidArgument unless from >= 1, count >= 1 and the range lies inside [0, to)
void make_resize_axis(ResizeMethod method, const ResizedRange& range, ResizeAxis& axis);

}  // namespace terngrad
