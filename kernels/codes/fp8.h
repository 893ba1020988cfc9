// FP8: gradients in, E4M3 numbers of a byte out.
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

/// E4M3 (Micikevicius et al., "FP8 formats for deep learning", 2022): a sign bit, 4 bits of exponent biased by 7 and 3
/// of fraction; exponent 0 has the subnormal numbers, multiples of 2^-9; no infinity. 0x7f and 0xff are NaN, which no
/// encoder writes, nor minus zero, 0x80.
/// @param code  none of these three
float e4m3_value(std::uint8_t code);

struct Fp8Options {
  Rounding rounding = Rounding::kNearest;
  /// Second stream of draws, for ties; `key` is the first. Both come from the same seed, step and worker.
  DrawPurpose refine_purpose = DrawPurpose::kQuantizeRefine;
};

namespace cuda {
class Fp8Runner;
}

/// Quantizes slices to E4M3 codes (CodeFormat::kE4M3) of x = min(fl(|g| fl(1 / s)), 448), with g's sign:
///   nearest:    the nearest number, ties to the even code. Nothing is drawn;
///   stochastic: of the two numbers p <= x < q next to each other the upper if r16 < h, or if r16 == h and r24 < (65536
///   f
///               - h) 2^24, else the lower, with f = (x - p) / (q - p), which is exact, h = floor(65536 f), r16 =
///               draw16( key, d), r24 = draw32(refine key, d) >> 8, d = draw_offset + position in the segment. So E[s
///               value] is g where |g| <= 448 s, up to the rounding of x.
/// The code of zero has no sign. Where s is NaN or below kMinScaler all codes are 0. A scaler of fl(M / 448), M the
/// largest magnitude, uses the whole range.
///
/// Elements must be finite, or their scaler NaN or 0; those of 16 bits are widened to float32 first. Bit-equal on every
/// backend, for any split into slices, any alignment of the gradient, number of threads and SIMD width. With the tasks
/// of the call before it allocates nothing, copies nothing from the host and does not wait, so that it can be captured
/// into a CUDA graph. Serves one stream.
class Fp8Quantizer {
 public:
  explicit Fp8Quantizer(Device device = Device::cpu());

  /// Writes every task's payload: payload_bytes(CodeFormat::kE4M3, count, 1) bytes.
  /// @param tasks        any number, of any sizes; payloads must not overlap
  /// @param device_step  as in Ternarizer::run
  /// @throws InvalidArgument as check_quantize_tasks, for another device's stream, or device_step on the CPU, before
  /// anything is written
  void run(std::span<const QuantizeTask> tasks, const Fp8Options& options, const DrawKey& key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::Fp8Runner> cuda_;
};

/// Checks that E4M3 codes are what an encoder can have written: their length, none of 0x7f, 0x80 and 0xff, zeros behind
/// the last. check_payload does this for all formats. @throws CommunicationError saying what is wrong
void check_e4m3(const PackedCodes& codes);

namespace cpu {
/// E4M3 codes of the chunk of a task that begins `begin` elements into it.
/// @param gradient  the chunk's elements; task.gradient is not read
/// @param prefetch  what to fetch into the cache while draws are made
/// @param codes     [count rounded up to a multiple of 64] out; arbitrary from `count` on
void quantize_fp8_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                        const Fp8Options& options, const DrawKey& key, std::span<const std::byte> prefetch,
                        std::uint8_t* codes);
/// out[i] = fl(scaler * value of codes[i]); codes have passed check_e4m3.
void scale_e4m3(const std::uint8_t* codes, std::int64_t count, float scaler, float* out);
}  // namespace cpu

}  // namespace terngrad
