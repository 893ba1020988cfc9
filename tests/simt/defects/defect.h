// Kernels with one defect each, which the emulation must detect.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/copy.h"
#include "kernels/runtime/cuda/launch.cuh"

namespace terngrad::testing {

/// A kernel; `run` launches it and prints its result.
struct Defect {
  const char* name;
  void (*run)(Stream& stream);
};

std::span<const Defect> bounds_defects();
std::span<const Defect> value_defects();
std::span<const Defect> meeting_defects();
std::span<const Defect> race_defects();
/// Correct kernels, for which no build may report a defect.
std::span<const Defect> controls();

/// Device memory of `count` zeros.
template <class T>
Buffer<T> device_zeros(std::int64_t count, Stream& stream) {
  Buffer<T> memory(count, stream.device());
  fill_zero(memory.span(), stream);
  return memory;
}

/// Prints a hash of the words of `memory`, and the number of undefined words.
template <class T>
void print_result(Buffer<T>& memory, Stream& stream) {
  static_assert(sizeof(T) % 4 == 0);
  stream.synchronize();
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a, by words
  int num_undefined = 0;
  const auto* bytes = reinterpret_cast<const unsigned char*>(memory.data());
  for (std::size_t at = 0; at < memory.span().size_bytes(); at += 4) {
    std::uint32_t word;
    std::memcpy(&word, bytes + at, 4);
    hash = (hash ^ word) * 1099511628211u;
    if (word == 0xffffffffu) ++num_undefined;
  }
  std::printf("result %016llx, %d undefined\n", static_cast<unsigned long long>(hash), num_undefined);
}

}  // namespace terngrad::testing
