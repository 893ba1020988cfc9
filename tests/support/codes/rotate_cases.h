// Reference of the rotation, and functions that run the rotation kernels on a device.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/codes/rotate.h"
#include "kernels/random/philox.h"

namespace terngrad::testing {

/// Parameters of the rotation of one slice.
struct RotateCase {
  std::int64_t run = 1024;
  std::int64_t first = 0;
  std::int64_t draw_offset = 0;
  std::uint64_t seed = 5;
  std::uint64_t step = 9;
};

inline bool is_minus(const RotateCase& c, std::size_t element) {
  const auto d = static_cast<std::uint64_t>(c.draw_offset + c.first) + element;
  const auto block =
      draw_block({.seed = c.seed, .step = c.step, .worker = 0, .purpose = static_cast<DrawPurpose>(12)}, d / 128);
  return (block[d % 128 / 32] >> (d % 32) & 1) != 0;
}

/// Rotation as in docs/codecs.md: butterflies in order of strides, in float32, then one multiplication.
inline std::vector<float> reference_rotation(const RotateCase& c, std::vector<float> x, Rotation rotation) {
  const auto flip = [&] {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (is_minus(c, i)) x[i] = -x[i];
    }
  };
  if (rotation == Rotation::kForward) flip();
  std::size_t begin = 0;
  for (auto run = static_cast<std::size_t>(c.run); begin < x.size(); begin += run) {
    while (run > x.size() - begin) run /= 2;
    for (std::size_t stride = 1; stride < run; stride *= 2) {
      for (std::size_t i = begin; i < begin + run; ++i) {
        if (((i - begin) & stride) != 0) continue;
        const float a = x[i];
        const float b = x[i + stride];
        x[i] = a + b;
        x[i + stride] = a - b;
      }
    }
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(run)));
    for (std::size_t i = begin; i < begin + run; ++i) x[i] *= scale;
  }
  if (rotation == Rotation::kBackward) flip();
  return x;
}

/// Result of the CPU backend.
inline std::vector<float> rotated(const RotateCase& c, const std::vector<float>& x, Rotation rotation,
                                  int num_threads = 1) {
  std::vector<float> out(x.size());
  Stream stream(Device::cpu(), num_threads);
  const RotateTask task{.values = x.data(),
                        .first = c.first,
                        .count = static_cast<std::int64_t>(x.size()),
                        .draw_offset = c.draw_offset,
                        .out = out.data()};
  Rotator(c.run).run({&task, 1}, rotation, {.seed = c.seed, .step = c.step}, stream);
  return out;
}

}  // namespace terngrad::testing
