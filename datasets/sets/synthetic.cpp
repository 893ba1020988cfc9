#include "datasets/sets/synthetic.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "datasets/sets/example_draws.h"
#include "datasets/sets/glyphs.h"
#include "datasets/sets/grey_images.h"
#include "datasets/sets/pen_strokes.h"
#include "datasets/sets/stroke_canvas.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"
#include "kernels/runtime/errors.h"
#include "kernels/runtime/parallel.h"

namespace terngrad {
namespace {

constexpr std::int64_t kImagePixels = std::int64_t{kSyntheticImageSize} * kSyntheticImageSize;

// Difficulty of the set. Tuned so that a linear classifier reaches 83 % test accuracy (it must stay below 90 %)
// while LeNet exceeds 98.5 % within a few thousand steps: digits have to be recognised at any position.
// Lengths are in pixels, angles as the tangent of half the angle, the rest relative.
constexpr float kPixelsPerUnit = 14.0f;  // glyphs are 1.4 units high
constexpr float kMinScale = 0.75f;
constexpr float kMaxScale = 1.1f;
constexpr float kMaxAspect = 0.15f;    // width times, height divided by 1 +- this
constexpr float kMaxHalfTurn = 0.16f;  // 2 atan(0.16) = 18 degrees
constexpr float kMaxShear = 0.3f;
constexpr float kMaxShift = 2.8f;
constexpr float kMaxBend = 0.12f;     // coefficients of the quadratic warp, glyph units
constexpr float kMaxJitter = 0.035f;  // per pen point, glyph units
constexpr float kMinRadius = 0.7f;
constexpr float kMaxRadius = 1.7f;
constexpr float kMinInk = 0.65f;
constexpr int kMaxClutter = 3;
constexpr float kMinClutterInk = 0.2f;
constexpr float kMaxClutterInk = 0.7f;
constexpr float kMaxBackground = 0.12f;
constexpr float kMaxNoise = 0.18f;  // half width of the triangular noise of the noisiest images

// Philox blocks of one example: shape draws from block 0 on, noise (16 bits per pixel) from block kNoiseBlock on.
constexpr std::uint64_t kBlocksPerExample = 1024;
constexpr std::uint64_t kNoiseBlock = 512;
constexpr std::int64_t kMaxIndex = std::int64_t{1} << 38;  // since block numbers have 48 bits

GlyphMap draw_distortion(ExampleDraws& draws) {
  GlyphMap result;
  for (float& coefficient : result.bend) coefficient = draws.symmetric(kMaxBend);
  // Rotation computed from the tangent u of half its angle, because sines and cosines differ between libraries.
  const float u = draws.symmetric(kMaxHalfTurn);
  const float cosine = (1.0f - u * u) / (1.0f + u * u);
  const float sine = 2.0f * u / (1.0f + u * u);
  const float shear = draws.symmetric(kMaxShear);
  const float scale = kPixelsPerUnit * draws.uniform(kMinScale, kMaxScale);
  const float aspect = 1.0f + draws.symmetric(kMaxAspect);
  const float scale_x = scale * aspect;
  const float scale_y = scale / aspect;
  result.xx = scale_x * cosine;
  result.xy = scale_y * (shear * cosine - sine);
  result.yx = scale_x * sine;
  result.yy = scale_y * (shear * sine + cosine);
  constexpr float kMiddle = (kSyntheticImageSize - 1) * 0.5f;
  result.shift_x = kMiddle + draws.symmetric(kMaxShift);
  result.shift_y = kMiddle + draws.symmetric(kMaxShift);
  return result;
}

void paint_digit(int digit, ExampleDraws& draws, StrokeCanvas& canvas) {
  const std::span<const Glyph> variants = digit_glyphs(digit);
  const Glyph glyph = variants[draws.below(static_cast<std::uint32_t>(variants.size()))];
  const GlyphMap distortion = draw_distortion(draws);
  const float radius = draws.uniform(kMinRadius, kMaxRadius);
  const float ink = draws.uniform(kMinInk, 1.0f);
  for (const GlyphStroke& stroke : glyph) add_stroke(stroke, distortion, kMaxJitter, radius, draws, canvas);
  canvas.paint(radius, ink);
}

/// Paints up to kMaxClutter short faint lines, thin or blunt, anywhere. One in three is a dot.
void paint_clutter(ExampleDraws& draws, StrokeCanvas& canvas) {
  const std::uint32_t count = draws.below(kMaxClutter + 1);
  for (std::uint32_t i = 0; i < count; ++i) {
    constexpr float kLast = kSyntheticImageSize - 1;
    const CanvasPoint from{draws.uniform(0.0f, kLast), draws.uniform(0.0f, kLast)};
    const CanvasPoint step{draws.symmetric(7.0f), draws.symmetric(7.0f)};
    const float radius = draws.uniform(0.4f, 1.4f);
    const float ink = draws.uniform(kMinClutterInk, kMaxClutterInk);
    const std::array<CanvasPoint, 2> line = {from, CanvasPoint{from.x + step.x, from.y + step.y}};
    canvas.add_path(std::span(line).first(draws.below(3) == 0 ? 1u : 2u), radius);
    canvas.paint(radius, ink);
  }
}

/// pixels = 255 * (background + (1 - background) * value + noise), rounded and clamped to [0, 255]. Noise is the sum of
/// two uniform bytes per pixel: triangular in (-amplitude, amplitude).
void write_pixels(const DrawKey& key, std::uint64_t first_block, float background, float amplitude,
                  std::span<const float> values, std::span<std::uint8_t> pixels) {
  for (std::size_t i = 0; i < pixels.size(); i += 8) {
    const std::array<std::uint32_t, 4> words = draw_block(key, first_block + i / 8);
    for (std::size_t j = 0; j < 8; ++j) {
      const std::uint32_t bits = words[j / 2] >> (j % 2 * 16) & 0xffffu;
      const float noise = static_cast<float>(static_cast<int>((bits & 0xffu) + (bits >> 8)) - 255) * (1.0f / 256.0f);
      const float value = background + (1.0f - background) * values[i + j] + amplitude * noise;
      pixels[i + j] = static_cast<std::uint8_t>(std::clamp(value * 255.0f + 0.5f, 0.0f, 255.0f));
    }
  }
}
static_assert(kImagePixels % 8 == 0, "write_pixels takes eight pixels from each Philox block");

void draw_digit(std::uint64_t seed, Subset subset, std::int64_t index, StrokeCanvas& canvas,
                std::span<std::uint8_t> pixels) {
  const DrawKey key{
      .seed = seed, .step = subset == Subset::kTrain ? 0u : 1u, .worker = 0, .purpose = DrawPurpose::kSyntheticData};
  const std::uint64_t first_block = static_cast<std::uint64_t>(index) * kBlocksPerExample;
  ExampleDraws draws(key, first_block);
  canvas.clear();
  paint_digit(synthetic_label(index), draws, canvas);
  paint_clutter(draws, canvas);
  const float background = draws.uniform(0.0f, kMaxBackground);
  const float amplitude = draws.uniform(0.0f, kMaxNoise);
  write_pixels(key, first_block + kNoiseBlock, background, amplitude, canvas.values(), pixels);
}

}  // namespace

void draw_synthetic_digit(std::uint64_t seed, Subset subset, std::int64_t index, std::span<std::uint8_t> pixels) {
  TERNGRAD_REQUIRE(pixels.size() == std::size_t{kImagePixels}, "[draw_synthetic_digit] pixels must hold ", kImagePixels,
                   " bytes, holds ", pixels.size());
  TERNGRAD_REQUIRE(index >= 0 && index < kMaxIndex, "[draw_synthetic_digit] index must be in [0, 2^38), got ", index);
  StrokeCanvas canvas(kSyntheticImageSize, kSyntheticImageSize);
  draw_digit(seed, subset, index, canvas, pixels);
}

std::unique_ptr<Dataset> make_synthetic(const DatasetOptions& options) {
  check_image_size("synthetic", options.image_size);
  TERNGRAD_REQUIRE(options.num_threads >= 0, "[synthetic] num_threads must not be negative, got ", options.num_threads);
  const std::int64_t count = options.subset == Subset::kTrain ? kSyntheticTrainExamples : kSyntheticTestExamples;
  GreyPixels grey{.height = kSyntheticImageSize, .width = kSyntheticImageSize, .pixels = {}, .labels = {}};
  grey.pixels.resize(static_cast<std::size_t>(count * kImagePixels));
  grey.labels.resize(static_cast<std::size_t>(count));
  const int num_threads = options.num_threads > 0 ? options.num_threads : num_hardware_threads();
  parallel_for(num_threads, count, 64, [&](std::int64_t begin, std::int64_t end) {
    StrokeCanvas canvas(kSyntheticImageSize, kSyntheticImageSize);
    for (std::int64_t index = begin; index < end; ++index) {
      const auto pixels =
          std::span(grey.pixels).subspan(static_cast<std::size_t>(index * kImagePixels), std::size_t{kImagePixels});
      draw_digit(options.seed, options.subset, index, canvas, pixels);
      grey.labels[static_cast<std::size_t>(index)] = static_cast<std::uint8_t>(synthetic_label(index));
    }
  });
  return std::make_unique<GreyImages>("synthetic", std::move(grey), kNumDigits, options.image_size);
}

}  // namespace terngrad
