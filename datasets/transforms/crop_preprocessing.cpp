#include "datasets/transforms/crop_preprocessing.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "datasets/transforms/image_draws.h"
#include "datasets/transforms/resize_axis.h"
#include "datasets/transforms/row_resizer.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

/// Sides of the resized image.
struct ResizedSides {
  int height = 0;
  int width = 0;
};

ResizedSides with_shorter_side(const ImageHeader& header, int side) {
  const int shorter = std::min(header.height, header.width);
  const auto resized = [&](int from) { return static_cast<int>(std::int64_t{from} * side / shorter); };
  return {.height = resized(header.height), .width = resized(header.width)};
}

/// Reusable buffers of one thread.
struct CropBuffers {
  ResizeAxis rows;
  ResizeAxis columns;
  DecodedImage part;
  ResizeScratch scratch;
};

class CropPreprocessing : public Preprocessing {
 public:
  CropPreprocessing(ResizeMethod method, Subset subset, int size)
      : method_(method), is_augmented_(subset == Subset::kTrain), size_(size) {}

  bool is_augmented() const override { return is_augmented_; }

  void run(const StoredImage& image, const ExampleVisit& visit, std::int64_t index,
           std::span<float> square) const override {
    const auto row_values = std::size_t{3} * static_cast<std::size_t>(size_);
    TERNGRAD_REQUIRE(square.size() == row_values * static_cast<std::size_t>(size_), "[Preprocessing] square must hold ",
                     row_values * static_cast<std::size_t>(size_), " values, holds ", square.size());
    thread_local CropBuffers buffers;
    std::optional<ImageDraws> draws;
    if (is_augmented_) draws.emplace(visit, index);
    make_axes(read_stored_header(image), draws, buffers);
    const ResizeAxis& rows = buffers.rows;
    const ResizeAxis& columns = buffers.columns;
    const ImageBox box{.top = rows.begin,
                       .left = columns.begin,
                       .height = rows.end - rows.begin,
                       .width = columns.end - columns.begin};
    const ImagePart part = read_stored_part(image, box, buffers.part);
    RowResizer resizer(part, rows, columns, buffers.scratch);
    for (int y = 0; y < size_; ++y) {
      float* const out = square.data() + static_cast<std::size_t>(y) * row_values;
      resizer.write_row(y, out);
      finish_row(out);
    }
  }

 protected:
  int size() const { return size_; }

  /// The sides that the image is resized to. @param draws  present for training subsets
  virtual ResizedSides resized_sides(const ImageHeader& header, const std::optional<ImageDraws>& draws) const = 0;
  /// Normalizes a row of values 0 to 255 for the net, in place.
  virtual void finish_row(float* row) const = 0;

 private:
  void make_axes(const ImageHeader& header, const std::optional<ImageDraws>& draws, CropBuffers& buffers) const {
    const ResizedSides sides = resized_sides(header, draws);
    int top = (sides.height - size_) / 2, left = (sides.width - size_) / 2;
    bool flip = false;
    if (draws) {
      const auto place = draws->block(2);
      top = below_of(place[2], sides.height - size_ + 1);
      left = below_of(place[3], sides.width - size_ + 1);
      flip = coin_of(draws->block(0)[1]);
    }
    make_resize_axis(method_, {.from = header.height, .to = sides.height, .first = top, .count = size_}, buffers.rows);
    make_resize_axis(method_, {.from = header.width, .to = sides.width, .first = left, .count = size_, .flip = flip},
                     buffers.columns);
  }

  ResizeMethod method_;
  bool is_augmented_;
  int size_;
};

void subtract_means(float* row, int size) {
  for (int x = 0; x < size; ++x) {
    for (std::size_t c = 0; c < kImageNetMeans.size(); ++c) row[c] -= kImageNetMeans[c];
    row += kImageNetMeans.size();
  }
}

class AlexnetPreprocessing : public CropPreprocessing {
 public:
  AlexnetPreprocessing(Subset subset, int size) : CropPreprocessing(ResizeMethod::kBilinear, subset, size) {}

 protected:
  ResizedSides resized_sides(const ImageHeader&, const std::optional<ImageDraws>&) const override {
    return {.height = kResizedSide, .width = kResizedSide};
  }
  void finish_row(float* row) const override { subtract_means(row, size()); }
};

class VggPreprocessing : public CropPreprocessing {
 public:
  VggPreprocessing(Subset subset, int size) : CropPreprocessing(ResizeMethod::kBilinear, subset, size) {}

 protected:
  ResizedSides resized_sides(const ImageHeader& header, const std::optional<ImageDraws>& draws) const override {
    const int more = draws ? below_of(draws->block(1)[2], kMaxVggSide - kResizedSide + 1) : 0;
    return with_shorter_side(header, kResizedSide + more);
  }
  void finish_row(float* row) const override { subtract_means(row, size()); }
};

class StandardPreprocessing : public CropPreprocessing {
 public:
  StandardPreprocessing(Subset subset, int size) : CropPreprocessing(ResizeMethod::kAntialiased, subset, size) {}

 protected:
  ResizedSides resized_sides(const ImageHeader& header, const std::optional<ImageDraws>&) const override {
    return with_shorter_side(header, (size() * 256 + 112) / 224);
  }
  void finish_row(float* row) const override {
    for (int i = 0; i < 3 * size(); ++i) row[i] = (row[i] / 255.0f - 0.5f) * 2.0f;
  }
};

class TorchvisionPreprocessing final : public StandardPreprocessing {
 public:
  using StandardPreprocessing::StandardPreprocessing;

 protected:
  void finish_row(float* row) const override {
    for (int x = 0; x < size(); ++x) {
      for (std::size_t c = 0; c < kTorchvisionMeans.size(); ++c) {
        row[c] = (row[c] / 255.0f - kTorchvisionMeans[c]) / kTorchvisionDeviations[c];
      }
      row += kTorchvisionMeans.size();
    }
  }
};

}  // namespace

std::unique_ptr<Preprocessing> make_alexnet_preprocessing(Subset subset, int size) {
  return std::make_unique<AlexnetPreprocessing>(subset, size);
}

std::unique_ptr<Preprocessing> make_vgg_preprocessing(Subset subset, int size) {
  return std::make_unique<VggPreprocessing>(subset, size);
}

std::unique_ptr<Preprocessing> make_standard_preprocessing(Subset subset, int size) {
  return std::make_unique<StandardPreprocessing>(subset, size);
}

std::unique_ptr<Preprocessing> make_torchvision_preprocessing(Subset subset, int size) {
  return std::make_unique<TorchvisionPreprocessing>(subset, size);
}

}  // namespace terngrad
