// One axis of resizing an image: the source pixels of each target pixel, and their weights.
#pragma once

#include <cstdint>
#include <vector>

namespace terngrad {

/// Computation of a target pixel i from source pixels j; s = source pixels per target pixel. The first four are those
/// of TensorFlow 1 (tf.image.resize_images without align_corners), where pixels are points, without antialiasing:
///   kBilinear     x = s i in float; the pixels floor(x) and the next, weighted by 1 - (x - floor(x)) and x - floor(x)
///   kNearest      the pixel floor(x)
///   kBicubic      Keys' kernel with a = -0.75 over the pixels floor(x) - 1 to floor(x) + 2, at x - floor(x) rounded to
///                 1/1024, half to even
///   kArea         the exact mean over [s i, s (i + 1)), where a pixel covers [j, j + 1)
///   kAntialiased  Pillow's and torchvision's bilinear: weights max(0, 1 - |j + 0.5 - (i + 0.5) s| / max(1, s)),
///                 divided by their sum
/// Pixels beyond an edge are replaced by the edge pixel, with kAntialiased omitted.
enum class ResizeMethod : std::uint8_t { kBilinear, kNearest, kBicubic, kArea, kAntialiased };

/// Part of a resized axis.
struct ResizedRange {
  int from = 0;          // number of source pixels on the axis
  int to = 0;            // number of target pixels on the axis
  int first = 0;         // first target pixel in the part
  int count = 0;         // number of target pixels in the part
  bool flip = false;     // true: reversed order
  int source_first = 0;  // offset of the axis in a larger image, added to source positions
};

/// Target pixel i is the sum over t < taps of weights[i * taps + t] times source pixel first[i] + t, in this order.
/// Unused weights are 0.
struct ResizeAxis {
  int taps = 0;
  std::vector<int> first = {};
  std::vector<float> weights = {};

  int num_targets() const { return static_cast<int>(first.size()); }
  /// Range [begin, end) of the source pixels that target pixels need.
  int begin = 0;
  int end = 0;
};

/// Computes the axis. Weights are computed in double (positions in float where ResizeMethod says so) and rounded once:
/// equal calls give equal bits on every machine.
/// @param axis  out; its memory is reused
/// @throws InvalidArgument unless from >= 1, count >= 1 and the range is inside [0, to)
void make_resize_axis(ResizeMethod method, const ResizedRange& range, ResizeAxis& axis);

}  // namespace terngrad
