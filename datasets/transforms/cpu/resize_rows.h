// The inner loops of resizing an image.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terngrad::cpu {

/// Colours of a pixel, and what resize_columns reads and writes beyond the last one.
inline constexpr std::size_t kColourChannels = 3;
inline constexpr std::size_t kRowPadding = 1;

/// out[i] = bytes[i].
void bytes_to_floats(const std::uint8_t* bytes, std::size_t count, float* out);

/// out[i, c] = sum over t < taps of weights[i * taps + t] * row[first[i] + t, c], in this order. Equal bits on every
/// SIMD target, as of the next.
/// @param row  [n, 3] and kRowPadding more values, which have no influence
/// @param out  [count, 3] and kRowPadding more
void resize_columns(const float* row, const int* first, const float* weights, std::size_t taps, std::size_t count,
                    float* out);

/// out[i] = sum over t < taps of weights[t] * rows[t][i], in this order.
/// @param taps  at least 1
void weigh_rows(const float* const* rows, const float* weights, std::size_t taps, std::size_t count, float* out);

}  // namespace terngrad::cpu
