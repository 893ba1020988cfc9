// Benchmarks of operations that treat every element alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/device_memory.h"
#include "bench/rows.h"

namespace terngrad::bench {

/// Arrays of such an operation, on one device.
struct ElementwiseArrays {
  Input<float> gradient;             // [n] the harness's; empty if the operation works in place
  std::vector<Buffer<float>> slots;  // [n] each, zero at first; in place: the first is a copy of the gradient
  Buffer<std::uint16_t> halves;      // [n], zero at first
  Buffer<std::uint32_t> flag;        // [1], zero at first
  Buffer<std::int64_t> counter;      // [1], zero at first
};

/// An elementwise kernel and the bytes that it moves.
struct ElementwiseOperation {
  std::string name;
  double bytes = 0;  // read and written for one element
  int num_slots = 0;
  bool is_in_place = false;
  bool has_halves = false;
  void (*apply)(ElementwiseArrays& arrays, Stream& stream) = nullptr;
  /// Optional, run once before, untimed.
  void (*prepare)(ElementwiseArrays& arrays, Stream& stream) = nullptr;
  /// Optional check of host arrays after one run.
  std::function<bool(const ElementwiseArrays& arrays, std::span<const float> gradient)> is_right = nullptr;
};

/// Adds an operation at all sizes. After it has run once, all arrays must be right, and bit-identical to a run on the
/// CPU with all threads.
void add_elementwise(Rows& rows, const ElementwiseOperation& operation, Devices devices = Devices::kBoth);

}  // namespace terngrad::bench
