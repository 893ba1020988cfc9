#include "datasets/transforms/inception_preprocessing.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "datasets/transforms/colour_distortion.h"
#include "datasets/transforms/image_draws.h"
#include "datasets/transforms/resize_axis.h"
#include "datasets/transforms/row_resizer.h"
#include "datasets/transforms/sampled_box.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

constexpr std::array kDrawnMethods = {ResizeMethod::kBilinear, ResizeMethod::kNearest, ResizeMethod::kBicubic,
                                      ResizeMethod::kArea};

/// The part of an image that one visit uses.
struct BoxView {
  ImageBox box;
  ResizeMethod method = ResizeMethod::kBilinear;
  bool flip = false;
};

/// Reusable buffers of one thread.
struct BoxBuffers {
  ResizeAxis rows;
  ResizeAxis columns;
  DecodedImage part;
  ResizeScratch scratch;
};

ImageBox middle_box(const ImageHeader& header) {
  // Sixteenths in integers: rounds down as the double formula, in which 0.875 is exact.
  const int top = header.height / 16, left = header.width / 16;
  return {.top = top, .left = left, .height = header.height - 2 * top, .width = header.width - 2 * left};
}

void check_objects(const StoredImage& image) {
  const auto is_range = [](float min, float max) { return min >= 0 && min <= max && max <= 1; };  // false for NaN
  for (const BoundingBox& box : image.boxes) {
    if (is_range(box.x_min, box.x_max) && is_range(box.y_min, box.y_max)) continue;
    TERNGRAD_THROW(DataError, "'", image.name, "': expected bounding boxes with 0 <= min <= max <= 1, found x ",
                   box.x_min, " to ", box.x_max, ", y ", box.y_min, " to ", box.y_max);
  }
}

class InceptionPreprocessing : public Preprocessing {
 public:
  InceptionPreprocessing(Subset subset, int size) : is_augmented_(subset == Subset::kTrain), size_(size) {}

  bool is_augmented() const override { return is_augmented_; }

  void run(const StoredImage& image, const ExampleVisit& visit, std::int64_t index,
           std::span<float> square) const override {
    const std::size_t values = std::size_t{3} * static_cast<std::size_t>(size_) * static_cast<std::size_t>(size_);
    TERNGRAD_REQUIRE(square.size() == values, "[Preprocessing] square must hold ", values, " values, holds ",
                     square.size());
    if (is_augmented_) {
      const ImageDraws draws(visit, index);
      check_objects(image);
      const ImageHeader header = read_stored_header(image);
      resize(image,
             {.box = draw_sampled_box(header.height, header.width, image.boxes, draws),
              .method = kDrawnMethods[draws.block(0)[0] >> 30],
              .flip = coin_of(draws.block(0)[1])},
             square);
      distort_colours(draw_colour_distortion(draws), square);
    } else {
      resize(image, {.box = middle_box(read_stored_header(image))}, square);
    }
    for (float& value : square) value = (std::min(std::max(value, 0.0f), 1.0f) - 0.5f) * 2.0f;
  }

 private:
  /// Resizes to values in [0, 1].
  void resize(const StoredImage& image, const BoxView& view, std::span<float> square) const {
    thread_local BoxBuffers buffers;
    const ImageBox& box = view.box;
    make_resize_axis(view.method,
                     {.from = box.height, .to = size_, .first = 0, .count = size_, .source_first = box.top},
                     buffers.rows);
    make_resize_axis(
        view.method,
        {.from = box.width, .to = size_, .first = 0, .count = size_, .flip = view.flip, .source_first = box.left},
        buffers.columns);
    const ImagePart part = read_stored_part(image, box, buffers.part);
    RowResizer resizer(part, buffers.rows, buffers.columns, buffers.scratch);
    const auto row_values = std::size_t{3} * static_cast<std::size_t>(size_);
    for (int y = 0; y < size_; ++y) {
      float* const out = square.data() + static_cast<std::size_t>(y) * row_values;
      resizer.write_row(y, out);
      for (std::size_t i = 0; i < row_values; ++i) out[i] *= 1.0f / 255;
    }
  }

  bool is_augmented_;
  int size_;
};

}  // namespace

std::unique_ptr<Preprocessing> make_inception_preprocessing(Subset subset, int size) {
  return std::make_unique<InceptionPreprocessing>(subset, size);
}

}  // namespace terngrad
