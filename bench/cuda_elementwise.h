// Benchmarks on a GPU of operations that treat every element alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"

namespace terngrad::bench {

/// What such an operation may work on, on the CPU or on a GPU.
struct ElementwiseArrays {
  Buffer<float> gradient;            // [n], the harness's
  std::vector<Buffer<float>> slots;  // [n] each, zero at first
  Buffer<std::uint16_t> halves;      // [n], zero at first
  Buffer<std::uint32_t> flag;        // [1], zero at first
  Buffer<std::int64_t> counter;      // [1], zero at first
};

struct ElementwiseOperation {
  std::string name;
  int num_slots = 0;        // arrays that it needs
  bool has_halves = false;  // whether it needs them
  double bytes = 0;         // read and written for one element
  void (*apply)(ElementwiseArrays& arrays, Stream& stream) = nullptr;
  /// Null, or run once before, untimed.
  void (*prepare)(ElementwiseArrays& arrays, Stream& stream) = nullptr;
};

/// Registers an operation for all sizes and residencies. After it has run once, all arrays must have the bits that the
/// CPU backend gives them.
void register_cuda_elementwise(const ElementwiseOperation& operation);

}  // namespace terngrad::bench
