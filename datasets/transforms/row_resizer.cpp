#include "datasets/transforms/row_resizer.h"

#include <algorithm>
#include <array>

namespace terngrad {
namespace {

/// One source row of `Channels` channels from column `left`, resized along its columns. `Taps` 0: as many as the axis
/// says.
template <std::size_t Channels, std::size_t Taps>
void resize_columns(const std::uint8_t* row, int left, const ResizeAxis& columns, float* out) {
  const std::size_t num_taps = Taps == 0 ? static_cast<std::size_t>(columns.taps) : Taps;
  const float* weights = columns.weights.data();
  for (const int first : columns.first) {
    const std::uint8_t* pixels = row + static_cast<std::size_t>(first - left) * Channels;
    std::array<float, Channels> sums{};
    for (std::size_t t = 0; t < num_taps; ++t) {
      for (std::size_t c = 0; c < Channels; ++c) sums[c] += weights[t] * static_cast<float>(pixels[t * Channels + c]);
    }
    for (std::size_t c = 0; c < Channels; ++c) out[c] = sums[c];
    out += Channels;
    weights += num_taps;
  }
}

template <std::size_t Channels>
void resize_columns(const std::uint8_t* row, int left, const ResizeAxis& columns, float* out) {
  switch (columns.taps) {
    case 1:
      return resize_columns<Channels, 1>(row, left, columns, out);
    case 2:
      return resize_columns<Channels, 2>(row, left, columns, out);
    case 3:
      return resize_columns<Channels, 3>(row, left, columns, out);
    case 4:
      return resize_columns<Channels, 4>(row, left, columns, out);
    default:
      return resize_columns<Channels, 0>(row, left, columns, out);
  }
}

}  // namespace

RowResizer::RowResizer(const ImagePart& part, const ResizeAxis& rows, const ResizeAxis& columns,
                       std::vector<float>& scratch)
    : part_(part),
      rows_(rows),
      columns_(columns),
      row_values_(columns.first.size() * static_cast<std::size_t>(part.channels)),
      ring_(scratch),
      next_row_(rows.begin) {
  ring_.resize(std::max(ring_.size(), row_values_ * static_cast<std::size_t>(rows.taps)));
}

float* RowResizer::resized_row(int source) {
  float* const out = ring_.data() + static_cast<std::size_t>(source % rows_.taps) * row_values_;
  if (source < next_row_) return out;
  next_row_ = source + 1;
  const std::uint8_t* const row = part_.pixels + std::ptrdiff_t{source - part_.top} * part_.row_bytes;
  if (part_.channels == 3) {
    resize_columns<3>(row, part_.left, columns_, out);
  } else {
    resize_columns<1>(row, part_.left, columns_, out);
  }
  return out;
}

void RowResizer::write_row(int y, float* out) {
  const auto row = static_cast<std::size_t>(y);
  const float* const weights = rows_.weights.data() + row * static_cast<std::size_t>(rows_.taps);
  std::fill_n(out, row_values_, 0.0f);
  for (int t = 0; t < rows_.taps; ++t) {
    const float* const from = resized_row(rows_.first[row] + t);
    for (std::size_t i = 0; i < row_values_; ++i) out[i] += weights[t] * from[i];
  }
}

}  // namespace terngrad
