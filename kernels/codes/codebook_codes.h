// Codes of a Lloyd-Max codebook with 4, 8 or 16 levels.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/codes/quantize_task.h"
#include "kernels/codes/ternary.h"
#include "kernels/runtime/device.h"
#include "kernels/statistics/codebook.h"

namespace terngrad {

struct PackedCodes;

/// Format e2, e3 or e4 of a codebook with 4, 8 or 16 levels. @throws InvalidArgument for another number
CodeFormat codebook_format(int levels);

/// Bits of a code of e2, e3 or e4. @throws InvalidArgument for another format
int codebook_bits(CodeFormat format);

namespace cuda {
class CodebookRunner;
}

/// Quantizes slices to the nearest level of a codebook, without draws. A task's scalers are the units u of its blocks
/// (kernels/statistics/codebook_scalers.h). The code of g has the number of thresholds t with |g| >= fl(t u) in its low
/// bits, below a sign bit, which is that of g. If u is NaN or below kMinScaler, codes are 0.
///
/// Elements must be finite unless u is NaN or 0. Bit-equal on every backend, for any split into slices, alignment of
/// the gradient, number of threads and SIMD width. A call with the same tasks as the previous one neither allocates,
/// copies from the host nor waits, so it can be captured into a CUDA graph. Use each object with one stream only.
class CodebookQuantizer {
 public:
  explicit CodebookQuantizer(Device device = Device::cpu());

  /// Writes every task's payload: payload_bytes(codebook_format(levels), count, 1) bytes.
  /// @param tasks  any number of slices of any size; payloads must not overlap
  /// @throws InvalidArgument as check_quantize_tasks, for levels other than 4, 8 and 16, or another device's stream,
  /// before anything is written
  void run(std::span<const QuantizeTask> tasks, int levels, Stream& stream);

 private:
  Device device_;
  std::shared_ptr<cuda::CodebookRunner> cuda_;
};

/// Checks that unused bits of e2, e3 or e4 are zero, in a payload of the right length: a part of check_payload.
/// @throws CommunicationError with the reason
void check_codebook(const PackedCodes& codes);

namespace cpu {
/// Quantizes the chunk that begins `begin` elements into a task, one byte per code.
/// @param gradient  the chunk's elements; task.gradient is not read
/// @param codes     [count rounded up to a multiple of 64] out; unspecified from `count` on
void quantize_codebook_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                             const Codebook& codebook, std::uint8_t* codes);
/// out[i] = fl(scaler * level of codes[i]), with one byte per code.
void scale_codebook(const std::uint8_t* codes, std::int64_t count, const Codebook& codebook, float scaler, float* out);
}  // namespace cpu

}  // namespace terngrad
