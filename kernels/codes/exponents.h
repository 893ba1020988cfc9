// Natural compression: gradients in, powers of two of 8 or 4 bits out.
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

/// n8 or n4. @throws InvalidArgument for other bits than 8 and 4
CodeFormat exponent_format(int bits);

/// What an n8 (n4) code stands for, in units of the scaler: 0, or 2^(e - 127) (2^(e - 7)) with a sign, e being its low
/// 7 (3) bits. @param code  not minus zero
float exponent_value(std::uint8_t code, int bits);

struct ExponentOptions {
  int bits = 8;  // of a code: 8 or 4
  /// Second stream of draws, for ties; `key` is the first. Both come from the same seed, step and worker.
  DrawPurpose refine_purpose = DrawPurpose::kQuantizeRefine;
};

namespace cuda {
class ExponentsRunner;
}

/// Rounds slices to powers of two, unbiased: of 8 bits the natural compression of Horvath et al. (2019), of 4 bits
/// levels 2^-6 to 1 as in NUQSGD (Ramezani-Kebrya et al., JMLR 2021).
///
/// y = min(fl(|g| fl(1 / s)), 1), E its exponent field and m its 23 bits of fraction. Up: r16 < m >> 7, or r16 == m >>
/// 7 and r24 >> 17 < (m & 127), with r16 = draw16(key, d), r24 = draw32(refine key, d) >> 8, d = draw_offset + position
/// in the segment: with probability m / 2^23. The code has the sign of g above its magnitude, which is
///   8 bits:  E, and 1 more if up; E is 0 below 2^-126;
///   4 bits:  E - 120, and 1 more if up, where y >= 2^-6; below 1 with probability 64 y, by the same draws, else 0.
/// The code of zero has no sign. Where s is NaN or below kMinScaler all codes are 0. With 8 bits and a power of two
/// that is at least the largest magnitude as scaler, scaling is exact and E[s value] is g.
///
/// Elements must be finite, or their scaler NaN or 0; those of 16 bits are widened to float32 first. Bit-equal on every
/// backend, for any split into slices, any alignment of the gradient, number of threads and SIMD width. With the tasks
/// of the call before it allocates nothing, copies nothing from the host and does not wait, so that it can be captured
/// into a CUDA graph. Serves one stream.
class ExponentQuantizer {
 public:
  explicit ExponentQuantizer(Device device = Device::cpu());

  /// Writes every task's payload: payload_bytes(exponent_format(bits), count, 1) bytes.
  /// @param tasks        any number, of any sizes; payloads must not overlap
  /// @param device_step  as in Ternarizer::run
  /// @throws InvalidArgument as check_quantize_tasks, for other bits than 8 and 4, another device's stream, or
  /// device_step on the CPU, before anything is written
  void run(std::span<const QuantizeTask> tasks, const ExponentOptions& options, const DrawKey& key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::ExponentsRunner> cuda_;
};

/// Checks that n8 or n4 codes are what an encoder can have written: their length, no minus zero, zeros behind the last.
/// check_payload does this for all formats. @throws CommunicationError saying what is wrong
void check_exponents(const PackedCodes& codes);

namespace cpu {
/// Codes, a byte each, of the chunk of a task that begins `begin` elements into it.
/// @param gradient  the chunk's elements; task.gradient is not read
/// @param prefetch  what to fetch into the cache while draws are made
/// @param codes     [count rounded up to a multiple of 64] out; arbitrary from `count` on
void quantize_exponents_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                              const ExponentOptions& options, const DrawKey& key, std::span<const std::byte> prefetch,
                              std::uint8_t* codes);
/// out[i] = fl(scaler * value of codes[i]), which are a byte each.
void scale_exponents(const std::uint8_t* codes, std::int64_t count, int bits, float scaler, float* out);
}  // namespace cpu

}  // namespace terngrad
