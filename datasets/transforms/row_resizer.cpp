#include "datasets/transforms/row_resizer.h"

#include <algorithm>

#include "datasets/transforms/cpu/resize_rows.h"

namespace terngrad {
namespace {

/// cpu::resize_columns for one channel.
void resize_grey_columns(const float* row, const ResizeAxis& columns, float* out) {
  const float* weights = columns.weights.data();
  for (const int first : columns.first) {
    float sum = 0;
    for (int t = 0; t < columns.taps; ++t) sum += *weights++ * row[first + t];
    *out++ = sum;
  }
}

}  // namespace

RowResizer::RowResizer(const ImagePart& part, const ResizeAxis& rows, const ResizeAxis& columns, ResizeScratch& scratch)
    : part_(part),
      rows_(rows),
      columns_(columns),
      row_values_(columns.first.size() * static_cast<std::size_t>(part.channels)),
      row_pitch_((row_values_ + cpu::kRowPadding + 15) / 16 * 16),  // whole cache lines
      scratch_(scratch),
      next_row_(rows.begin) {
  const auto grow = [](auto& memory, std::size_t size) { memory.resize(std::max(memory.size(), size)); };
  const auto taps = static_cast<std::size_t>(rows.taps);
  grow(scratch.source_row,
       static_cast<std::size_t>(columns.end) * static_cast<std::size_t>(part.channels) + cpu::kRowPadding);
  grow(scratch.ring, taps * row_pitch_);
  grow(scratch.rows, taps);
}

const float* RowResizer::resized_row(int source) {
  float* const out = scratch_.ring.data() + static_cast<std::size_t>(source % rows_.taps) * row_pitch_;
  if (source < next_row_) return out;
  next_row_ = source + 1;
  // A buffer for a whole row, in which only the needed columns are filled.
  const std::ptrdiff_t begin = std::ptrdiff_t{columns_.begin} * part_.channels;
  const std::uint8_t* const bytes = part_.pixels + std::ptrdiff_t{source - part_.top} * part_.row_bytes +
                                    std::ptrdiff_t{columns_.begin - part_.left} * part_.channels;
  cpu::bytes_to_floats(
      bytes, static_cast<std::size_t>(columns_.end - columns_.begin) * static_cast<std::size_t>(part_.channels),
      scratch_.source_row.data() + begin);
  if (part_.channels == 1) {
    resize_grey_columns(scratch_.source_row.data(), columns_, out);
  } else {
    cpu::resize_columns(scratch_.source_row.data(), columns_.first.data(), columns_.weights.data(),
                        static_cast<std::size_t>(columns_.taps), columns_.first.size(), out);
  }
  return out;
}

void RowResizer::write_row(int y, float* out) {
  const auto row = static_cast<std::size_t>(y), taps = static_cast<std::size_t>(rows_.taps);
  for (int t = 0; t < rows_.taps; ++t) scratch_.rows[static_cast<std::size_t>(t)] = resized_row(rows_.first[row] + t);
  cpu::weigh_rows(scratch_.rows.data(), rows_.weights.data() + row * taps, taps, row_values_, out);
}

}  // namespace terngrad
