// FP8: quantizes gradients to E4M3 numbers, one byte each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/codes/quantize_task.h"
#include "kernels/codes/rounding.h"
#include "kernels/codes/ternary.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"

namespace terngrad {

struct PackedCodes;

/// The largest E4M3 number.
inline constexpr float kMaxE4M3 = 448.0f;

/// Value of an E4M3 code (Micikevicius et al., "FP8 formats for deep learning", 2022): a sign bit, 4 exponent bits with
/// bias 7 and 3 fraction bits; exponent 0 has the subnormals, multiples of 2^-9; no infinity. 0x7f and 0xff are NaN.
/// Encoders write neither NaN nor minus zero, 0x80.
/// @param code  none of these three
float e4m3_value(std::uint8_t code);

/// Options of encoding as FP8 numbers.
struct Fp8Options {
  Rounding rounding = Rounding::kNearest;
  /// Second stream of draws, for ties; `key` is the first. Both have the same seed, step and worker.
  DrawPurpose refine_purpose = DrawPurpose::kQuantizeRefine;
};

namespace cuda {
class Fp8Runner;
}

/// Quantizes slices to E4M3 codes (CodeFormat::kE4M3) of x = min(fl(|g| fl(1 / s)), 448), with g's sign:
///   nearest:    the nearest number, ties to the even code. No draws;
///   stochastic: of the adjacent numbers p <= x < q the upper if r16 < h, or if r16 == h and r24 < (65536 f - h) 2^24,
///               else the lower, with f = (x - p) / (q - p), which is exact, h = floor(65536 f), r16 = draw16(key, d),
///               r24 = draw32(refine key, d) >> 8, d = draw_offset + position in the segment. So E[s value] = g if
///               |g| <= 448 s, up to the rounding of x.
/// Zero has no sign. If s is NaN or below kMinScaler, all codes are 0. A scaler of fl(M / 448), where M is the largest
/// magnitude, uses the whole range.
///
/// Elements must be finite unless their scaler is NaN or 0; 16-bit elements are widened to float32 first. Bit-equal on
/// every backend, for any split into slices, alignment of the gradient, number of threads and SIMD width. A call with
/// the same tasks as the previous one neither allocates, copies from the host nor waits, so it can be captured into a
/// CUDA graph. Use each object with one stream only.
class Fp8Quantizer {
 public:
  explicit Fp8Quantizer(Device device = Device::cpu());

  /// Writes every task's payload: payload_bytes(CodeFormat::kE4M3, count, 1) bytes.
  /// @param tasks        any number of slices of any size; payloads must not overlap
  /// @param device_step  as in Ternarizer::run
  /// @throws InvalidArgument as check_quantize_tasks, for another device's stream, or device_step on the CPU, before
  /// anything is written
  void run(std::span<const QuantizeTask> tasks, const Fp8Options& options, const DrawKey& key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::Fp8Runner> cuda_;
};

/// Validates E4M3 codes: their length, none of 0x7f, 0x80 and 0xff, zero padding. check_payload does this for all
/// formats.
/// @throws CommunicationError with the reason
void check_e4m3(const PackedCodes& codes);

namespace cpu {
struct ChunkDraws;

/// Quantizes the chunk that begins `begin` elements into a task.
/// @param gradient  the chunk's elements; task.gradient is not read
/// @param prefetch  memory to prefetch while draws are generated
/// @param draws     filled by the first call that needs them
/// @param codes     [count rounded up to a multiple of 64] out; unspecified from `count` on
void quantize_fp8_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                        const Fp8Options& options, const DrawKey& key, std::span<const std::byte> prefetch,
                        ChunkDraws& draws, std::uint8_t* codes);
/// out[i] = fl(scaler * value of codes[i]); codes must have passed check_e4m3.
void scale_e4m3(const std::uint8_t* codes, std::int64_t count, float scaler, float* out);
}  // namespace cpu

}  // namespace terngrad
