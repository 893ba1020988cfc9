#include "datasets/transforms/sampled_box.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

namespace terngrad {
namespace {

int round_half_even(double x) { return static_cast<int>(std::nearbyint(x)); }

/// A box with rows [y_min, y_max) and columns [x_min, x_max).
struct PixelBox {
  std::int64_t y_min, x_min, y_max, x_max;
  std::int64_t area() const {
    return std::max<std::int64_t>(y_max - y_min, 0) * std::max<std::int64_t>(x_max - x_min, 0);
  }
};

PixelBox in_pixels(const BoundingBox& box, int height, int width) {
  const auto times = [](float part, int side) { return static_cast<std::int64_t>(part * static_cast<float>(side)); };
  return {times(box.y_min, height), times(box.x_min, width), times(box.y_max, height), times(box.x_max, width)};
}

bool shows(const ImageBox& box, const PixelBox& object) {
  const PixelBox common{std::max<std::int64_t>(object.y_min, box.top), std::max<std::int64_t>(object.x_min, box.left),
                        std::min<std::int64_t>(object.y_max, box.top + box.height),
                        std::min<std::int64_t>(object.x_max, box.left + box.width)};
  return object.area() > 0 && common.area() * kMinObjectShare >= object.area();
}

bool shows_any(const ImageBox& box, std::span<const BoundingBox> objects, int height, int width) {
  if (objects.empty()) return shows(box, {0, 0, height, width});
  return std::any_of(objects.begin(), objects.end(),
                     [&](const BoundingBox& object) { return shows(box, in_pixels(object, height, width)); });
}

/// One attempt; nothing if it fails. @param words  draws: aspect, height, top, left
std::optional<ImageBox> draw_attempt(int height, int width, const std::array<std::uint32_t, 4>& words) {
  const double aspect = kMinBoxAspect + (kMaxBoxAspect - kMinBoxAspect) * static_cast<double>(uniform_of(words[0]));
  const std::int64_t area = std::int64_t{height} * width;
  int max = std::min(height, round_half_even(std::sqrt(static_cast<double>(area) / aspect)));
  max = std::min(max, static_cast<int>((width + 0.5) / aspect));
  while (round_half_even(max * aspect) > width) --max;
  const int min = std::min(max, round_half_even(std::sqrt(static_cast<double>(area) / kMinBoxShare / aspect)));
  ImageBox box{.height = min + below_of(words[1], max - min + 1)};
  const auto pixels = [&] {
    box.width = round_half_even(box.height * aspect);
    return std::int64_t{box.height} * box.width;
  };
  const auto is_too_small = [&] { return pixels() * kMinBoxShare < area; };
  if (is_too_small()) ++box.height;
  if (pixels() > area) --box.height;
  if (is_too_small() || pixels() > area || box.height > height || box.width > width || box.width < 1) {
    return std::nullopt;
  }
  box.top = below_of(words[2], height - box.height);
  box.left = below_of(words[3], width - box.width);
  return box;
}

}  // namespace

ImageBox draw_sampled_box(int height, int width, std::span<const BoundingBox> objects, const ImageDraws& draws) {
  for (int attempt = 0; attempt < kBoxAttempts; ++attempt) {
    const std::optional<ImageBox> box = draw_attempt(height, width, draws.block(2 + attempt));
    if (box && shows_any(*box, objects, height, width)) return *box;
  }
  return {.top = 0, .left = 0, .height = height, .width = width};
}

}  // namespace terngrad
