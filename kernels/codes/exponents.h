// Natural compression: quantizes gradients to powers of two in 8 or 4 bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/codes/quantize_task.h"
#include "kernels/codes/ternary.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"

namespace terngrad {

struct PackedCodes;

/// Format n8 or n4. @throws InvalidArgument unless bits is 8 or 4
CodeFormat exponent_format(int bits);

/// Value of an n8 (n4) code in units of the scaler: 0, or 2^(e - 127) (2^(e - 7)) with a sign, where e is its low 7 (3)
/// bits.
/// @param code  must not be minus zero
float exponent_value(std::uint8_t code, int bits);

/// Options of encoding as powers of two.
struct ExponentOptions {
  int bits = 8;  // per code: 8 or 4
  /// Second stream of draws, for ties; `key` is the first. Both have the same seed, step and worker.
  DrawPurpose refine_purpose = DrawPurpose::kQuantizeRefine;
};

namespace cuda {
class ExponentsRunner;
}

/// Rounds slices to powers of two, unbiased: with 8 bits the natural compression of Horvath et al. (2019), with 4 bits
/// levels 2^-6 to 1 as in NUQSGD (Ramezani-Kebrya et al., JMLR 2021).
///
/// y = min(fl(|g| fl(1 / s)), 1) has exponent field E and 23 fraction bits m. It is rounded up with probability m /
/// 2^23: if r16 < m >> 7, or r16 == m >> 7 and r24 >> 17 < (m & 127), with r16 = draw16(key, d), r24 = draw32(refine
/// key, d) >> 8, d = draw_offset + position in the segment. The code has the sign of g above its magnitude:
///   8 bits:  E, plus 1 if rounded up; E is 0 below 2^-126;
///   4 bits:  for y >= 2^-6, E - 120, plus 1 if rounded up; for smaller y, 1 with probability 64 y by the same draws,
///            else 0.
/// Zero has no sign. If s is NaN or below kMinScaler, all codes are 0. With 8 bits and a power-of-two scaler that is at
/// least the largest magnitude, scaling is exact and E[s value] = g.
///
/// Elements must be finite unless their scaler is NaN or 0; 16-bit elements are widened to float32 first. Bit-equal on
/// every backend, for any split into slices, alignment of the gradient, number of threads and SIMD width. A call with
/// the same tasks as the previous one neither allocates, copies from the host nor waits, so it can be captured into a
/// CUDA graph. Use each object with one stream only.
class ExponentQuantizer {
 public:
  explicit ExponentQuantizer(Device device = Device::cpu());

  /// Writes every task's payload: payload_bytes(exponent_format(bits), count, 1) bytes.
  /// @param tasks        any number of slices of any size; payloads must not overlap
  /// @param device_step  as in Ternarizer::run
  /// @throws InvalidArgument as check_quantize_tasks, for bits other than 8 and 4, another device's stream, or
  /// device_step on the CPU, before anything is written
  void run(std::span<const QuantizeTask> tasks, const ExponentOptions& options, const DrawKey& key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::ExponentsRunner> cuda_;
};

/// Validates n8 or n4 codes: their length, no minus zero, zero padding. check_payload does this for all formats.
/// @throws CommunicationError with the reason
void check_exponents(const PackedCodes& codes);

namespace cpu {
struct ChunkDraws;

/// Quantizes the chunk that begins `begin` elements into a task, one byte per code.
/// @param gradient  the chunk's elements; task.gradient is not read
/// @param prefetch  memory to prefetch while draws are generated
/// @param draws     filled by the first call that needs them
/// @param codes     [count rounded up to a multiple of 64] out; unspecified from `count` on
void quantize_exponents_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                              const ExponentOptions& options, const DrawKey& key, std::span<const std::byte> prefetch,
                              ChunkDraws& draws, std::uint8_t* codes);
/// out[i] = fl(scaler * value of codes[i]), with one byte per code.
void scale_exponents(const std::uint8_t* codes, std::int64_t count, int bits, float scaler, float* out);
}  // namespace cpu

}  // namespace terngrad
