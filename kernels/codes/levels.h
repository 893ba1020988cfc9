// Uniform levels (QSGD): quantizes gradients to codes from -L to L in 2, 4 or 8 bits.
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

/// L for codes of `bits` bits, which range from -L to L: 1, 7 and 127 for 2, 4 and 8.
constexpr int num_levels(int bits) { return (1 << (bits - 1)) - 1; }

/// Format t2, q4 or q8. @throws InvalidArgument unless bits is 2, 4 or 8
CodeFormat level_format(int bits);

/// L of one worker's codes in a format: 1 (t2, t5, tmask, trans), 7 (q4), 127 (q8). @throws InvalidArgument for others
int levels_of(CodeFormat format);

/// Options of encoding as uniform levels (QSGD).
struct LevelOptions {
  int bits = 4;         // per code: 2, 4 or 8
  bool lanes = false;   // write lanes of 2 L levels (CodeFormat::kLanes) instead of level_format(bits)
  int num_workers = 1;  // N: lanes must be able to sum the codes of N workers; N workers share draws (kStratified)
  Rounding rounding = Rounding::kStochastic;
  /// Second stream of draws, for ties; `key` is the first. Both have the same seed, step and worker.
  DrawPurpose refine_purpose = DrawPurpose::kQuantizeRefine;
};

namespace cuda {
class LevelsRunner;
}

/// Quantizes slices to L = 2^(bits - 1) - 1 uniform levels of each sign (Alistarh et al., "QSGD", NIPS 2017, section
/// 3).
///
/// inv = fl(L / s), t = min(fl(|g| inv), L), l = floor(t), f = t - l, which is exact. The code is sign(g) times
///   stochastic: L if |g| >= s; else l + 1 if r16 < h, or if r16 == h and r24 < (65536 f - h) 2^24, else l, with h =
///               floor(65536 f), r16 = draw16(key, d), r24 = draw32(refine key, d) >> 8, d = draw_offset + position in
///               the segment. So E[(s / L) code] = g if |g| <= s, up to the rounding of t;
///   stratified: as stochastic, with r16 and r24 as in kernels/codes/ternarize.h;
///   nearest:    L if |g| >= s; else t rounded to an integer, ties to even. No draws.
/// If s is NaN or below kMinScaler, all codes are 0. Stochastic codes of 2 bits equal Ternarizer's for equal draws.
///
/// Elements must be finite unless their scaler is NaN or 0; 16-bit elements are widened to float32 first. Bit-equal on
/// every backend, for any split into slices, alignment of the gradient, number of threads and SIMD width. A call with
/// the same tasks as the previous one neither allocates, copies from the host nor waits, so it can be captured into a
/// CUDA graph. Use each object with one stream only.
class LevelQuantizer {
 public:
  explicit LevelQuantizer(Device device = Device::cpu());

  /// Writes every task's payload: payload_bytes(format, count, num_workers, 2 L) bytes.
  /// @param tasks        any number of slices of any size; payloads must not overlap
  /// @param device_step  as in Ternarizer::run
  /// @throws InvalidArgument as check_quantize_tasks, for bits other than 2, 4 and 8, lanes whose sums exceed 2^24,
  /// another device's stream, or device_step on the CPU, before anything is written
  void run(std::span<const QuantizeTask> tasks, const LevelOptions& options, const DrawKey& key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  Ternarizer ternarizer_;  // for 2 bits, stochastic
  std::vector<TernarizeTask> ternarize_tasks_;
  std::vector<std::int64_t> ternarize_bytes_;
  std::shared_ptr<cuda::LevelsRunner> cuda_;
};

/// Validates q4 or q8 codes: their length, no code 15 or 255, zero padding. check_payload does this for all formats.
/// @throws CommunicationError with the reason
void check_levels(const PackedCodes& codes);

/// Unpacks codes [first, first + out.size()) of q4 or q8; the range must be valid. unpack_codes handles all formats.
void unpack_levels(const PackedCodes& codes, std::int64_t first, std::span<std::int16_t> out);

namespace cpu {
struct ChunkDraws;

/// Quantizes the chunk that begins `begin` elements into a task to code + L, one byte each.
/// @param gradient  the chunk's elements; task.gradient is not read
/// @param prefetch  memory to prefetch while draws are generated
/// @param draws     filled by the first call that needs them
/// @param codes     [count rounded up to a multiple of 64] out; unspecified from `count` on
void quantize_levels_chunk(const QuantizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                           const LevelOptions& options, const DrawKey& key, std::span<const std::byte> prefetch,
                           ChunkDraws& draws, std::uint8_t* codes);
}  // namespace cpu

}  // namespace terngrad
