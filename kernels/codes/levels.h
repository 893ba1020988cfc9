// Uniform levels: gradients in, codes from -L to L out, in 2, 4 or 8 bits.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/codes/quantize_task.h"
#include "kernels/codes/rounding.h"
#include "kernels/codes/ternarize.h"
#include "kernels/codes/ternary.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"

namespace terngrad {

struct PackedCodes;

/// L: codes of `bits` bits are -L to L. 1, 7 and 127 for 2, 4 and 8.
constexpr int num_levels(int bits) { return (1 << (bits - 1)) - 1; }

/// t2, q4 or q8. @throws InvalidArgument for other bits than 2, 4 and 8
CodeFormat level_format(int bits);

/// L of the codes of one worker in a format: 1 (t2, t5, tmask, trans), 7 (q4), 127 (q8). @throws InvalidArgument for
/// others
int levels_of(CodeFormat format);

struct LevelOptions {
  int bits = 4;         // of a code: 2, 4 or 8
  bool lanes = false;   // lanes of 2 L levels (CodeFormat::kLanes) in place of level_format(bits)
  int num_workers = 1;  // whose codes lanes must be able to sum
  Rounding rounding = Rounding::kStochastic;
  /// Second stream of draws, for ties; `key` is the first. Both come from the same seed, step and worker.
  DrawPurpose refine_purpose = DrawPurpose::kQuantizeRefine;
};

namespace cuda {
class LevelsRunner;
}

/// Quantizes slices to L = 2^(bits - 1) - 1 uniform levels of each sign (Alistarh et al., "QSGD", NIPS 2017, section
/// 3).
///
/// inv = fl(L / s), t = min(fl(|g| inv), L), l = floor(t), f = t - l, which is exact. The code is sign(g) times
///   stochastic: L where |g| >= s; else l + 1 if r16 < h, or if r16 == h and r24 < (65536 f - h) 2^24, else l, with h =
///               floor(65536 f), r16 = draw16(key, d), r24 = draw32(refine key, d) >> 8, d = draw_offset + position in
///               the segment. So E[(s / L) code] is g where |g| <= s, up to the rounding of t;
///   nearest:    L where |g| >= s; else t rounded to an integer, ties to even. Nothing is drawn.
/// Where s is NaN or below kMinScaler all codes are 0. With 2 bits, drawn, they are Ternarizer's for equal draws.
///
/// Elements must be finite, or their scaler NaN or 0; those of 16 bits are widened to float32 first. Bit-equal on every
/// backend, for any split into slices, any alignment of the gradient, number of threads and SIMD width. With the tasks
/// of the call before it allocates nothing, copies nothing from the host and does not wait, so that it can be captured
/// into a CUDA graph. Serves one stream.
class LevelQuantizer {
 public:
  explicit LevelQuantizer(Device device = Device::cpu());

  /// Writes every task's payload: payload_bytes(format, count, num_workers, 2 L) bytes.
  /// @param tasks        any number, of any sizes; payloads must not overlap
  /// @param device_step  as in Ternarizer::run
  /// @throws InvalidArgument as check_quantize_tasks, for other bits than 2, 4 and 8, lanes whose sums pass 2^24,
  /// another device's stream, or device_step on the CPU, before anything is written
  void run(std::span<const QuantizeTask> tasks, const LevelOptions& options, const DrawKey& key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  Ternarizer ternarizer_;  // of 2 bits, drawn
  std::vector<TernarizeTask> ternarize_tasks_;
  std::vector<std::int64_t> ternarize_bytes_;
  std::shared_ptr<cuda::LevelsRunner> cuda_;
};

/// Checks that q4 or q8 codes are what an encoder can have written: their length, no code 15 or 255, zeros behind the
/// last. check_payload does this for all formats. @throws CommunicationError saying what is wrong
void check_levels(const PackedCodes& codes);

/// Codes [first, first + out.size()) of q4 or q8, which are inside. unpack_codes does this for all formats.
void unpack_levels(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out);

namespace cpu {
/// Codes + L of the chunk of a task that begins `begin` elements into it, a byte each.
/// @param gradient  the chunk's elements; task.gradient is not read
/// @param prefetch  what to fetch into the cache while draws are made
/// @param codes     [count rounded up to a multiple of 64] out; arbitrary from `count` on
void quantize_levels_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                           const LevelOptions& options, const DrawKey& key, std::span<const std::byte> prefetch,
                           std::uint8_t* codes);
}  // namespace cpu

}  // namespace terngrad
