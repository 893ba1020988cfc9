#include "datasets/transforms/resize_axis.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr double kBicubicA = -0.75;
constexpr float kBicubicSteps = 1024;

/// The source pixels of one target pixel, without pixels beyond the edges.
struct Taps {
  int first = 0;
  std::vector<double> weights;

  void reset(int begin, int end) {
    first = begin;
    weights.assign(static_cast<std::size_t>(end - begin), 0.0);
  }
  double& at(int source) { return weights[static_cast<std::size_t>(source - first)]; }
};

float position(const ResizedRange& range, int i) {
  return static_cast<float>(range.from) / static_cast<float>(range.to) * static_cast<float>(i);
}

/// The bicubic kernel for distances of at most 1, and from 1 to 2.
double near_weight(double x) { return ((kBicubicA + 2) * x - (kBicubicA + 3)) * x * x + 1; }
double far_weight(double x) { return ((kBicubicA * x - 5 * kBicubicA) * x + 8 * kBicubicA) * x - 4 * kBicubicA; }

void bilinear(const ResizedRange& range, int i, Taps& taps) {
  const float x = position(range, i);
  const int lower = std::min(static_cast<int>(x), range.from - 1);
  const int upper = std::min(lower + 1, range.from - 1);
  const double weight = static_cast<double>(x - static_cast<float>(lower));
  taps.reset(lower, upper + 1);
  taps.at(lower) += 1 - weight;
  taps.at(upper) += weight;
}

void nearest(const ResizedRange& range, int i, Taps& taps) {
  const int source = std::min(static_cast<int>(position(range, i)), range.from - 1);
  taps.reset(source, source + 1);
  taps.at(source) = 1;
}

void bicubic(const ResizedRange& range, int i, Taps& taps) {
  const float x = position(range, i);
  const int middle = std::min(static_cast<int>(x), range.from - 1);
  const double d = static_cast<double>(std::nearbyint((x - static_cast<float>(middle)) * kBicubicSteps)) /
                   static_cast<double>(kBicubicSteps);
  const auto clamped = [&](int source) { return std::clamp(source, 0, range.from - 1); };
  taps.reset(clamped(middle - 1), clamped(middle + 2) + 1);
  taps.at(clamped(middle - 1)) += far_weight(1 + d);
  taps.at(middle) += near_weight(d);
  taps.at(clamped(middle + 1)) += near_weight(1 - d);
  taps.at(clamped(middle + 2)) += far_weight(2 - d);
}

void area(const ResizedRange& range, int i, Taps& taps) {
  // In units of 1 / to source pixels, so that all quantities are integers.
  const std::int64_t from = range.from, to = range.to;
  const std::int64_t begin = from * i, end = begin + from;
  taps.reset(static_cast<int>(begin / to), static_cast<int>((end + to - 1) / to));
  for (std::size_t t = 0; t < taps.weights.size(); ++t) {
    const std::int64_t pixel = (taps.first + static_cast<std::int64_t>(t)) * to;
    const std::int64_t covered = std::min(end, pixel + to) - std::max(begin, pixel);
    taps.weights[t] = static_cast<double>(covered) / static_cast<double>(from);
  }
}

void antialiased(const ResizedRange& range, int i, Taps& taps) {
  const double ratio = static_cast<double>(range.from) / static_cast<double>(range.to);
  const double reach = std::max(1.0, ratio);
  const double centre = (i + 0.5) * ratio;
  taps.reset(std::max(0, static_cast<int>(std::floor(centre - reach))),
             std::min(range.from, static_cast<int>(std::floor(centre + reach)) + 1));
  double sum = 0;
  for (std::size_t t = 0; t < taps.weights.size(); ++t) {
    taps.weights[t] = std::max(0.0, 1.0 - std::fabs(taps.first + static_cast<int>(t) + 0.5 - centre) / reach);
    sum += taps.weights[t];
  }
  for (double& weight : taps.weights) weight /= sum;
}

void make_taps(ResizeMethod method, const ResizedRange& range, int i, Taps& taps) {
  switch (method) {
    case ResizeMethod::kBilinear:
      return bilinear(range, i, taps);
    case ResizeMethod::kNearest:
      return nearest(range, i, taps);
    case ResizeMethod::kBicubic:
      return bicubic(range, i, taps);
    case ResizeMethod::kArea:
      return area(range, i, taps);
    case ResizeMethod::kAntialiased:
      return antialiased(range, i, taps);
  }
}

}  // namespace

void make_resize_axis(ResizeMethod method, const ResizedRange& range, ResizeAxis& axis) {
  TERNGRAD_REQUIRE(range.from >= 1 && range.first >= 0 && range.count >= 1 && range.count <= range.to - range.first,
                   "[make_resize_axis] expected target pixels of 0 to ", range.to, " and source pixels, got ",
                   range.count, " from ", range.first, " and ", range.from);
  thread_local std::vector<Taps> targets;
  const auto count = static_cast<std::size_t>(range.count);
  if (targets.size() < count) targets.resize(count);
  axis.begin = range.from;
  axis.end = 0;
  std::size_t num_taps = 0;
  for (std::size_t k = 0; k < count; ++k) {
    const int kept = static_cast<int>(range.flip ? count - 1 - k : k);
    Taps& taps = targets[k];
    make_taps(method, range, range.first + kept, taps);
    axis.begin = std::min(axis.begin, taps.first);
    axis.end = std::max(axis.end, taps.first + static_cast<int>(taps.weights.size()));
    num_taps = std::max(num_taps, taps.weights.size());
  }
  axis.taps = static_cast<int>(num_taps);
  axis.first.resize(count);
  axis.weights.assign(count * num_taps, 0.0f);
  for (std::size_t k = 0; k < count; ++k) {
    const Taps& taps = targets[k];
    const int first = std::min(taps.first, axis.end - axis.taps);  // keep all taps inside the needed pixels
    axis.first[k] = first + range.source_first;
    float* const weights = axis.weights.data() + k * num_taps + (taps.first - first);
    for (std::size_t t = 0; t < taps.weights.size(); ++t) weights[t] = static_cast<float>(taps.weights[t]);
  }
  axis.begin += range.source_first;
  axis.end += range.source_first;
}

}  // namespace terngrad
