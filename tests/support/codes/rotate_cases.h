// Reference of the rotation, and functions that run the rotation kernels on a device.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
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
  TailRotation tails = TailRotation::kOnce;
};

inline bool is_minus(const RotateCase& c, std::size_t element) {
  const auto d = static_cast<std::uint64_t>(c.draw_offset + c.first) + element;
  const auto block =
      draw_block({.seed = c.seed, .step = c.step, .worker = 0, .purpose = static_cast<DrawPurpose>(12)}, d / 128);
  return (block[d % 128 / 32] >> (d % 32) & 1) != 0;
}

/// Butterflies in order of strides, in float32, then one multiplication.
inline void hadamard(std::span<float> run) {
  for (std::size_t stride = 1; stride < run.size(); stride *= 2) {
    for (std::size_t i = 0; i < run.size(); ++i) {
      if ((i & stride) != 0) continue;
      const float a = run[i];
      const float b = run[i + stride];
      run[i] = a + b;
      run[i + stride] = a - b;
    }
  }
  const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(run.size())));
  for (float& value : run) value *= scale;
}

/// Rotation as in docs/wire-format.md.
inline std::vector<float> reference_rotation(const RotateCase& c, std::vector<float> x, Rotation rotation) {
  const auto flip = [&](std::size_t begin, std::size_t count, std::size_t first_sign) {
    for (std::size_t i = 0; i < count; ++i) {
      if (is_minus(c, first_sign + i)) x[begin + i] = -x[begin + i];
    }
  };
  const auto transform = [&](std::size_t begin, std::size_t count, std::size_t first_sign) {
    if (rotation == Rotation::kForward) flip(begin, count, first_sign);
    hadamard({x.data() + begin, count});
    if (rotation == Rotation::kBackward) flip(begin, count, first_sign);
  };
  const std::size_t tail = x.size() % static_cast<std::size_t>(c.run);
  const bool is_mixed = c.tails == TailRotation::kTwice && tail != 0 && !std::has_single_bit(tail);
  const auto mix = [&] { transform(x.size() - std::bit_floor(tail), std::bit_floor(tail), x.size() - tail); };
  if (is_mixed && rotation == Rotation::kBackward) mix();
  std::size_t begin = 0;
  for (auto run = static_cast<std::size_t>(c.run); begin < x.size(); begin += run) {
    while (run > x.size() - begin) run /= 2;
    transform(begin, run, begin);
  }
  if (is_mixed && rotation == Rotation::kForward) mix();
  return x;
}

/// Result of the CPU backend.
inline std::vector<float> rotated(const RotateCase& c, const std::vector<float>& x, Rotation rotation,
                                  int num_threads = 1) {
  std::vector<float> out = x;
  Stream stream(Device::cpu(), num_threads);
  const RotateTask task{.values = out.data(),
                        .first = c.first,
                        .count = static_cast<std::int64_t>(x.size()),
                        .draw_offset = c.draw_offset,
                        .out = out.data()};
  Rotator(c.run, Device::cpu(), c.tails).run({&task, 1}, rotation, {.seed = c.seed, .step = c.step}, stream);
  return out;
}

}  // namespace terngrad::testing
