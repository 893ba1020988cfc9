// Rotating runs, alone and before quantizing to 4 bits.
#include "kernels/codes/rotate.h"

#include <cmath>
#include <memory>
#include <vector>

#include "bench/device_memory.h"
#include "bench/gradients.h"
#include "bench/rows.h"
#include "kernels/codes/levels.h"
#include "kernels/codes/ternary.h"

namespace terngrad::bench {
namespace {

constexpr std::int64_t kRun = 1024;
constexpr float kScaler = 0.02154f;
constexpr DrawKey kKey{1, 1, 0, DrawPurpose::kQuantize};

std::vector<float> rotate_on_cpu(std::span<const float> values, Rotation rotation) {
  std::vector<float> rotated(values.size());
  const RotateTask task{
      .values = values.data(), .count = static_cast<std::int64_t>(values.size()), .out = rotated.data()};
  Stream stream;
  Rotator(kRun).run({&task, 1}, rotation, kKey, stream);
  return rotated;
}

double squares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

/// True if values are bit-identical to the CPU's, the norm of the first run is the gradient's, and turning it back
/// gives the gradient.
bool is_right(const std::vector<float>& rotated, std::span<const float> gradient) {
  const std::span<const float> run = std::span(rotated).first(kRun);
  const std::vector<float> back = rotate_on_cpu(run, Rotation::kBackward);
  for (std::size_t i = 0; i < back.size(); ++i) {
    if (!(std::fabs(back[i] - gradient[i]) < 1e-5f)) return false;
  }
  return std::fabs(squares(run) / squares(gradient.first(kRun)) - 1) < 1e-6 &&
         rotated == rotate_on_cpu(gradient, Rotation::kForward);
}

/// @param quantizes  true: values are also quantized to 4 bits once they are rotated
Subject rotate_subject(std::int64_t n, bool quantizes) {
  const std::int64_t bytes = payload_bytes(CodeFormat::kQ4, n, 1);
  const auto prepare = [=](Stream& stream) {
    struct Set {
      Input<float> gradient;
      Buffer<float> scaler, rotated;
      Buffer<std::uint64_t> payload;
      Rotator rotator;
      LevelQuantizer quantizer;
    };
    const auto set = std::make_shared<Set>(Set{{gradient(n), stream},
                                               on_device(std::span(&kScaler, 1), stream),
                                               Buffer<float>(n, stream.device()),
                                               Buffer<std::uint64_t>(quantizes ? (bytes + 7) / 8 : 0, stream.device()),
                                               Rotator(kRun, stream.device()),
                                               LevelQuantizer(stream.device())});
    const RotateTask rotation{.values = set->gradient.data(), .count = n, .out = set->rotated.data()};
    const QuantizeTask task{.gradient = set->rotated.data(),
                            .count = n,
                            .scalers = set->scaler.data(),
                            .payload = reinterpret_cast<std::uint8_t*>(set->payload.data())};
    const auto run = [=, &stream] {
      set->rotator.run({&rotation, 1}, Rotation::kForward, kKey, stream);
      if (quantizes) set->quantizer.run({&task, 1}, {.bits = 4}, kKey, stream);
    };
    return Work{.run = run,
                .check = [=, &stream] { return is_right(on_host(set->rotated.span(), stream), gradient(n)); }};
  };
  const auto elements = static_cast<double>(n);
  return {.bytes = 8 * elements + (quantizes ? 4 * elements + static_cast<double>(bytes) : 0),
          .elements = elements,
          .prepare = prepare};
}

const Registration registration(__FILE__, [](Rows& rows) {
  rows.add("rotate_1024", "f32", [](std::int64_t n) { return rotate_subject(n, /*quantizes=*/false); });
  rows.add("rotate_1024_quantize_q4", "f32", [](std::int64_t n) { return rotate_subject(n, /*quantizes=*/true); },
           {.devices = Devices::kCpu});
});

}  // namespace
}  // namespace terngrad::bench
