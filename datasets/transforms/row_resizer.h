// Resizing an image by weights of its columns and rows, a row at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "datasets/transforms/resize_axis.h"

namespace terngrad {

/// Pixels of an image in memory, from row `top` and column `left`.
struct ImagePart {
  const std::uint8_t* pixels = nullptr;
  std::ptrdiff_t row_bytes = 0;
  int channels = 0;  // 1 or 3
  int top = 0;
  int left = 0;
};

/// Memory of a RowResizer, which the next one may use again. What it holds means nothing.
struct ResizeScratch {
  std::vector<float> source_row;
  std::vector<float> ring;         // the last rows.taps source rows, resized along the columns
  std::vector<const float*> rows;  // of the ring, those of a target row
};

/// target[y, x, c] = sum over t of row weight t times (sum over u of column weight u times source pixel), each sum in
/// the order of the axes, not rounded to bytes in between: equal calls give equal bits on every machine.
class RowResizer {
 public:
  /// @param part     holds the pixels [rows.begin, rows.end) x [columns.begin, columns.end)
  /// @param rows     not flipped
  /// @param scratch  lives as long as this
  RowResizer(const ImagePart& part, const ResizeAxis& rows, const ResizeAxis& columns, ResizeScratch& scratch);

  /// Values 0 to 255 (kBicubic: beyond, too) of target row `y`, which must not be less than at the call before.
  /// @param out  [columns.num_targets(), channels]
  void write_row(int y, float* out);

 private:
  const float* resized_row(int source);

  const ImagePart& part_;
  const ResizeAxis& rows_;
  const ResizeAxis& columns_;
  std::size_t row_values_;
  std::size_t row_pitch_;  // of the ring
  ResizeScratch& scratch_;
  int next_row_;  // of the source, not yet in the ring
};

}  // namespace terngrad
