#include "datasets/sets/synthetic224.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <string>

#include "datasets/sets/example_draws.h"
#include "datasets/sets/glyphs.h"
#include "datasets/sets/pen_strokes.h"
#include "datasets/sets/stroke_canvas.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

using Colour = std::array<float, 3>;

constexpr int kOwnSize = 224;
// Philox blocks of one example: shape draws from block 0 on, noise (1 byte per pixel) from kSynthetic224NoiseBlock on.
constexpr std::uint64_t kSynthetic224Blocks = 8192;
constexpr std::uint64_t kSynthetic224NoiseBlock = 1024;
constexpr std::int64_t kMaxSynthetic224Index = std::int64_t{1} << 35;  // since block numbers have 48 bits
static_assert(std::uint64_t{kMaxSynthetic224Size} * ((kMaxSynthetic224Size + 15) / 16) <=
              kSynthetic224Blocks - kSynthetic224NoiseBlock);

// Lengths are relative to the image's side, angles given as the tangent of half the angle.
constexpr float kMinHeight = 0.55f;  // height of the digit
constexpr float kMaxHeight = 0.8f;
constexpr float kGlyphHeight = 1.5f;    // in the glyph plane, with room for the bend
constexpr float kMaxHalfLean = 0.08f;   // rotation of the digit: 9 degrees
constexpr float kMaxHalfTilt = 0.035f;  // rotation of the grating: 4 degrees
constexpr float kMinPeriod = 1.0f / 16;
constexpr float kMaxPeriod = 1.0f / 8;
constexpr float kMaxShake = 0.03f;  // jitter of pen points, in the glyph plane
constexpr float kMinPen = 0.05f;    // radius over height
constexpr float kMaxPen = 0.08f;
constexpr float kMinContrast = 0.15f;    // half the distance of the grating's colours, in the channel with the largest
constexpr float kMinInkDistance = 0.5f;  // distance of the digit's colour from the grating's mean, likewise
constexpr float kMaxGrain = 0.08f;       // half width of the noise

/// Cosine and sine of 0, 18, ... 162 degrees.
constexpr std::array<std::array<float, 2>, 10> kDirections = {{{1.0f, 0.0f},
                                                               {0.9510565f, 0.309017f},
                                                               {0.809017f, 0.5877853f},
                                                               {0.5877853f, 0.809017f},
                                                               {0.309017f, 0.9510565f},
                                                               {0.0f, 1.0f},
                                                               {-0.309017f, 0.9510565f},
                                                               {-0.5877853f, 0.809017f},
                                                               {-0.809017f, 0.5877853f},
                                                               {-0.9510565f, 0.309017f}}};

/// Rotates a direction by an angle whose half has the tangent u.
std::array<float, 2> turned(std::array<float, 2> direction, float u) {
  const float cosine = (1.0f - u * u) / (1.0f + u * u);
  const float sine = 2.0f * u / (1.0f + u * u);
  return {direction[0] * cosine - direction[1] * sine, direction[0] * sine + direction[1] * cosine};
}

Colour draw_colour(ExampleDraws& draws) {
  return {draws.uniform(0.0f, 1.0f), draws.uniform(0.0f, 1.0f), draws.uniform(0.0f, 1.0f)};
}

/// A random colour, with one channel changed if necessary to be at least `distance` from `other` in some channel.
Colour draw_distant_colour(const Colour& other, float distance, ExampleDraws& draws) {
  Colour colour = draw_colour(draws);
  const std::uint32_t channel = draws.below(3);
  if (std::fabs(colour[channel] - other[channel]) < distance) {
    colour[channel] = other[channel] < 0.5f ? other[channel] + distance : other[channel] - distance;
  }
  return colour;
}

/// A wave between two colours: mean + half wave((x cos + y sin) / period + phase).
struct Grating {
  float per_x = 0;  // periods per pixel to the right
  float per_y = 0;  // periods per pixel down
  float phase = 0;
  Colour mean{};
  Colour half{};  // half of the colours' difference
};

Grating draw_grating(int direction, float side, ExampleDraws& draws) {
  const std::array<float, 2> along =
      turned(kDirections[static_cast<std::size_t>(direction)], draws.symmetric(kMaxHalfTilt));
  const float period = side * draws.uniform(kMinPeriod, kMaxPeriod);
  Grating grating{.per_x = along[0] / period, .per_y = along[1] / period, .phase = draws.uniform(0.0f, 1.0f)};
  const Colour a = draw_colour(draws);
  const Colour b = draw_distant_colour(a, 2 * kMinContrast, draws);
  for (std::size_t c = 0; c < 3; ++c) {
    grating.mean[c] = 0.5f * (a[c] + b[c]);
    grating.half[c] = 0.5f * (b[c] - a[c]);
  }
  return grating;
}

void paint_glyph(int digit, float side, ExampleDraws& draws, StrokeCanvas& canvas) {
  const std::span<const Glyph> variants = digit_glyphs(digit);
  const Glyph glyph = variants[draws.below(static_cast<std::uint32_t>(variants.size()))];
  const float height = side * draws.uniform(kMinHeight, kMaxHeight);
  const float scale = height / kGlyphHeight;
  const std::array<float, 2> turn = turned({1.0f, 0.0f}, draws.symmetric(kMaxHalfLean));
  const float room = 0.5f * (side - height);
  const float middle = 0.5f * (side - 1.0f);
  const GlyphMap map{.bend = {},
                     .xx = scale * turn[0],
                     .xy = -scale * turn[1],
                     .yx = scale * turn[1],
                     .yy = scale * turn[0],
                     .shift_x = middle + draws.symmetric(room),
                     .shift_y = middle + draws.symmetric(room)};
  const float radius = height * draws.uniform(kMinPen, kMaxPen);
  for (const GlyphStroke& stroke : glyph) add_stroke(stroke, map, kMaxShake, radius, draws, canvas);
  canvas.paint(radius, 1.0f);
}

/// This thread's canvas for images of side `size`, cleared.
StrokeCanvas& empty_canvas(int size) {
  static thread_local int canvas_size = 0;
  static thread_local std::unique_ptr<StrokeCanvas> canvas;
  if (canvas_size != size) {
    canvas = std::make_unique<StrokeCanvas>(size, size);
    canvas_size = size;
  }
  canvas->clear();
  return *canvas;
}

/// Triangle wave: 1 at integers, -1 halfway between them. |t| < 2^23.
float triangle_wave(float t) {
  // floor(t) by integer conversion, which vectorizes.
  const float truncated = static_cast<float>(static_cast<std::int32_t>(t));
  const float floor = truncated - (t < truncated ? 1.0f : 0.0f);
  return 4.0f * std::fabs(t - floor - 0.5f) - 1.0f;
}

/// Noise for a row of pixels: bytes mapped uniformly to [-grain, grain], from Philox block `block` on.
void draw_noise(const DrawKey& key, std::uint64_t block, float grain, std::span<float> noise) {
  const float factor = grain * (1.0f / 128.0f);
  for (std::size_t x = 0; x < noise.size(); x += 16, ++block) {
    const std::array<std::uint32_t, 4> words = draw_block(key, block);
    const std::size_t count = std::min<std::size_t>(16, noise.size() - x);
    for (std::size_t i = 0; i < count; ++i) {
      noise[x + i] = factor * (static_cast<float>(words[i / 4] >> (i % 4 * 8) & 0xffu) - 127.5f);
    }
  }
}

/// Composes grating, digit and noise and maps [0, 1] to [-1, 1].
void write_image(const DrawKey& key, std::uint64_t first_block, int size, const Grating& grating, const Colour& ink,
                 float grain, std::span<const float> digit, std::span<float> image) {
  const auto side = static_cast<std::size_t>(size);
  const std::uint64_t row_blocks = (side + 15) / 16;
  std::array<float, kMaxSynthetic224Size> wave, noise;
  for (std::size_t y = 0; y < side; ++y) {
    draw_noise(key, first_block + y * row_blocks, grain, std::span(noise).first(side));
    const float phase = static_cast<float>(y) * grating.per_y + grating.phase;
    for (std::size_t x = 0; x < side; ++x) {
      wave[x] = triangle_wave(static_cast<float>(static_cast<std::int32_t>(x)) * grating.per_x + phase);
    }
    const float* cover = digit.data() + y * side;
    float* out = image.data() + 3 * y * side;
    for (std::size_t x = 0; x < side; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const float behind = grating.mean[c] + grating.half[c] * wave[x];
        const float value = behind + cover[x] * (ink[c] - behind) + noise[x];
        out[3 * x + c] = 2.0f * std::min(std::max(value, 0.0f), 1.0f) - 1.0f;
      }
    }
  }
}

class Synthetic224 final : public Dataset {
 public:
  Synthetic224(Subset subset, int size, std::uint64_t seed) : subset_(subset), size_(size), seed_(seed) {}

  const std::string& name() const override { return name_; }
  std::int64_t num_examples() const override {
    return subset_ == Subset::kTrain ? kSynthetic224TrainExamples : kSynthetic224TestExamples;
  }
  int height() const override { return size_; }
  int width() const override { return size_; }
  int channels() const override { return 3; }
  int num_classes() const override { return kSynthetic224Classes; }

  std::int32_t label(std::int64_t index) const override {
    require_index(index);
    return synthetic224_label(index);
  }
  void read(std::int64_t index, const ExampleVisit&, std::span<float> image) const override {
    require_index(index);
    draw_synthetic224(seed_, subset_, index, size_, image);
  }
  bool is_augmented() const override { return false; }

 private:
  void require_index(std::int64_t index) const {
    TERNGRAD_REQUIRE(index >= 0 && index < num_examples(), "[synthetic224] example index must be in [0, ",
                     num_examples(), "), got ", index);
  }

  std::string name_ = "synthetic224";
  Subset subset_;
  int size_;
  std::uint64_t seed_;
};

}  // namespace

void draw_synthetic224(std::uint64_t seed, Subset subset, std::int64_t index, int size, std::span<float> image) {
  TERNGRAD_REQUIRE(size >= kMinSynthetic224Size && size <= kMaxSynthetic224Size, "[synthetic224] image_size must be ",
                   kMinSynthetic224Size, " to ", kMaxSynthetic224Size, ", got ", size);
  TERNGRAD_REQUIRE(image.size() == static_cast<std::size_t>(size) * static_cast<std::size_t>(size) * 3,
                   "[synthetic224] an image of ", size, " needs ", size * size * 3, " values, the buffer holds ",
                   image.size());
  TERNGRAD_REQUIRE(index >= 0 && index < kMaxSynthetic224Index, "[synthetic224] index must be in [0, 2^35), got ",
                   index);
  const DrawKey key{
      .seed = seed, .step = subset == Subset::kTrain ? 2u : 3u, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  const std::uint64_t first_block = static_cast<std::uint64_t>(index) * kSynthetic224Blocks;
  ExampleDraws draws(key, first_block);
  const auto side = static_cast<float>(size);
  const std::int32_t label = synthetic224_label(index);
  const Grating grating = draw_grating(label / 10, side, draws);
  const Colour ink = draw_distant_colour(grating.mean, kMinInkDistance, draws);
  const float grain = draws.uniform(0.0f, kMaxGrain);
  StrokeCanvas& canvas = empty_canvas(size);
  paint_glyph(label % 10, side, draws, canvas);
  write_image(key, first_block + kSynthetic224NoiseBlock, size, grating, ink, grain, canvas.values(), image);
}

std::unique_ptr<Dataset> make_synthetic224(const DatasetOptions& options) {
  const int size = options.image_size == 0 ? kOwnSize : options.image_size;
  TERNGRAD_REQUIRE(size >= kMinSynthetic224Size && size <= kMaxSynthetic224Size,
                   "[synthetic224] image_size must be 0 (", kOwnSize, ") or ", kMinSynthetic224Size, " to ",
                   kMaxSynthetic224Size, ", got ", options.image_size);
  TERNGRAD_REQUIRE(options.num_threads >= 0, "[synthetic224] num_threads must not be negative, got ",
                   options.num_threads);
  return std::make_unique<Synthetic224>(options.subset, size, options.seed);
}

}  // namespace terngrad
