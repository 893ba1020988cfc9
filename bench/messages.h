// Messages of codes as inputs of benchmarks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/codes/ternary_pack.h"
#include "kernels/runtime/buffer.h"

namespace terngrad::bench {

/// Scaler of all messages: about a third of ternary codes are not zero.
inline constexpr float kMessageScaler = 0.025f;

/// Messages of several workers in host memory, encoded from one gradient with draws of their own.
struct Messages {
  CodeFormat format = CodeFormat::kT2;
  std::int64_t num_codes = 0;
  std::vector<Buffer<std::uint64_t>> payloads;
  std::vector<std::int64_t> bytes;  // written to each payload

  PackedCodes codes(std::size_t worker) const;
  double total_bytes() const;
};

/// Encodes the first n elements of gradient() for each worker.
/// @param num_workers  messages; lanes have room for the sum of all
Messages encode_messages(std::int64_t n, CodeFormat format, int num_workers);

/// True if `is_right(first, count)` is true for each chunk of n elements. Runs on all threads of the machine.
bool all_chunks(std::int64_t n, const std::function<bool(std::int64_t first, std::int64_t count)>& is_right);

}  // namespace terngrad::bench
