// Lloyd-Max codebooks: the levels that quantize a Gaussian with the least mean square error.
#pragma once

namespace terngrad {

/// The magnitudes of a symmetric codebook, ascending, and the thresholds between neighbours. An element of magnitude m
/// belongs to magnitude k if thresholds[k - 1] u <= m < thresholds[k] u, with the unit u of the elements around it
/// (kernels/statistics/codebook_scalers.h). Values matter up to a common factor, which the scaler makes up for.
struct Codebook {
  static constexpr int kMaxMagnitudes = 8;
  int num_magnitudes = 0;
  float values[kMaxMagnitudes] = {};
  float thresholds[kMaxMagnitudes - 1] = {};
  double unit = 1;  // u as a multiple of the root mean square
};

/// True if there is a codebook with this number of levels: 2, 3, 4, 8 or 16.
constexpr bool has_codebook(int levels) {
  return levels == 2 || levels == 3 || levels == 4 || levels == 8 || levels == 16;
}

/// The codebook with 2, 3, 4, 8 or 16 levels; an empty one for another number. Thresholds are midpoints of neighbouring
/// levels; levels are the means of a standard Gaussian between thresholds (Max, "Quantizing for minimum distortion",
/// 1960; Lloyd, 1982). Two levels are -1 and 1; three are -1, 0 and 1 times a unit of 1.224 root mean squares.
constexpr Codebook codebook(int levels) {
  switch (levels) {
    case 2:
      return {1, {1.0f}, {}, 1};
    case 3:
      return {2, {0.0f, 1.0f}, {0.5f}, 1.22400641};
    case 4:
      return {2, {0.452780038f, 1.51041758f}, {0.981598794f}, 1};
    case 8:
      return {4, {0.24509418f, 0.756005287f, 1.34390926f, 2.15194559f}, {0.500549734f, 1.04995728f, 1.74792755f}, 1};
    case 16:
      return {
          8,
          {0.128395036f, 0.388048291f, 0.656759143f, 0.942340434f, 1.25623119f, 1.6180464f, 2.06901717f, 2.73258948f},
          {0.258221656f, 0.522403717f, 0.799549758f, 1.09928584f, 1.4371388f, 1.84353185f, 2.40080333f},
          1};
    default:
      return {};  // without magnitudes
  }
}

}  // namespace terngrad
