// RowResizer: resizes an image row by row, by weights of columns and rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datasets/transforms/resize_axis.h"

namespace terngrad {

/// A part of an image in memory, from row `top` and column `left` on.
struct ImagePart {
  const std::uint8_t* pixels = nullptr;
  std::ptrdiff_t row_bytes = 0;
  int channels = 0;  // 1 or 3
  int top = 0;
  int left = 0;
};

/// Scratch memory of a RowResizer, which may be reused by the next one.
struct ResizeScratch {
  std::vector<float> source_row;
  std::vector<float> ring;         // the last rows.taps source rows, resized horizontally
  std::vector<const float*> rows;  // rows of the ring for a target row
};

/// target[y, x, c] = sum over t of row weight t times (sum over u of column weight u times source pixel), summed in the
/// order of the axes, without intermediate rounding to bytes: equal calls give equal bits on every machine.
class RowResizer {
 public:
  /// @param part     contains the pixels [rows.begin, rows.end) x [columns.begin, columns.end)
  /// @param rows     must not be flipped
  /// @param scratch  must outlive this object
  RowResizer(const ImagePart& part, const ResizeAxis& rows, const ResizeAxis& columns, ResizeScratch& scratch);

  /// Computes target row `y`, which must not decrease from call to call.
  /// @param out  [columns.num_targets(), channels] values in 0 to 255 (with kBicubic also outside)
  void write_row(int y, float* out);

 private:
  const float* resized_row(int source);

  const ImagePart& part_;
  const ResizeAxis& rows_;
  const ResizeAxis& columns_;
  std::size_t row_values_;
  std::size_t row_pitch_;  // distance of the ring's rows
  ResizeScratch& scratch_;
  int next_row_;  // the next source row to put into the ring
};

}  // namespace terngrad
