// Inner loops of resizing an image.
#pragma once

#include <cstddef>
#include <cstdint>

namespace terngrad::cpu {

/// Channels of a pixel, and padding that resize_columns reads and writes after the last pixel.
inline constexpr std::size_t kColourChannels = 3;
inline constexpr std::size_t kRowPadding = 1;

/// out[i] = bytes[i].
void bytes_to_floats(const std::uint8_t* bytes, std::size_t count, float* out);

/// out[i, c] = sum over t < taps of weights[i * taps + t] * row[first[i] + t, c], in this order. Bit-equal on every
/// SIMD target, as is weigh_rows.
/// @param row  [n, 3] and kRowPadding further values, which do not affect the result
/// @param out  [count, 3] and kRowPadding further values
void resize_columns(const float* row, const int* first, const float* weights, std::size_t taps, std::size_t count,
                    float* out);

/// out[i] = sum over t < taps of weights[t] * rows[t][i], in this order.
/// @param taps  at least 1
void weigh_rows(const float* const* rows, const float* weights, std::size_t taps, std::size_t count, float* out);

}  // namespace terngrad::cpu
