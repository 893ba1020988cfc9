// Sign compression: packs one bit per gradient element, and decodes it (signSGD).
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

/// Sign bit for elements that are 0 (of either sign).
enum class ZeroSign : std::uint8_t {
  kAlternate,  // parity of step + worker + position in the segment
  kPlus,       // 0
  kOwn,        // the element's own sign bit: 1 for -0
};

/// Options of encoding as signs.
struct SignOptions {
  ZeroSign zeros = ZeroSign::kAlternate;
  bool votes = false;   // elements with scaler NaN or 0 are encoded as zeros (ZeroSign) instead of plus
  bool lanes = false;   // write lanes of one level (CodeFormat::kLanes) instead of bits
  int num_workers = 1;  // number of workers whose bits lanes must be able to count
  /// Scalers are pairs; an element is used if one of its pair is positive. Bits only.
  bool two_scalers = false;
  std::int64_t columns = 0;  // position p of the segment has pair p mod columns; 0: pairs by blocks
};

namespace cuda {
class SignRunner;
}

/// Packs the signs of slices (CodeFormat::kBits): bit 1 if g < 0, 0 if g > 0, and by ZeroSign if g is 0 (Bernstein et
/// al., "signSGD: Compressed Optimisation for Non-Convex Problems", ICML 2018). Scalers only select elements: if its
/// scaler is NaN or 0, an element's value is ignored.
///
/// Elements must be finite unless their scaler is NaN or 0; 16-bit elements are widened to float32 first. No draws: of
/// the key only step and worker are used. Bit-equal on every backend, for any split into slices, alignment of the
/// gradient, number of threads and SIMD width. A call with the same tasks as the previous one neither allocates, copies
/// from the host nor waits, so it can be captured into a CUDA graph. Use each object with one stream only.
class SignPacker {
 public:
  explicit SignPacker(Device device = Device::cpu());

  /// Writes every task's payload: payload_bytes(CodeFormat::kBits, count, 1) bytes, or for lanes
  /// payload_bytes(CodeFormat::kLanes, count, num_workers, 1).
  /// @param tasks        any number of slices of any size; payloads must not overlap
  /// @param device_step  as in Ternarizer::run
  /// @throws InvalidArgument as check_quantize_tasks, for lanes with less than one worker or with two scalers, negative
  /// columns, columns without two scalers, another device's stream, or device_step on the CPU, before anything is
  /// written
  void run(std::span<const QuantizeTask> tasks, const SignOptions& options, const DrawKey& key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::SignRunner> cuda_;
};

/// Validates sign bits: their length and zero padding. check_payload does this for all formats.
/// @throws CommunicationError with the reason
void check_bits(const PackedCodes& codes);

namespace cpu {
/// Packs the signs of `count` elements, at most a chunk, into 64-bit words, low bits first; unused bits are zero.
/// @param zeros  bit pattern for zeros, by element index mod 64
void sign_words(const float* gradient, std::int64_t count, std::uint64_t zeros, std::uint64_t* words);
/// The same with the elements' own sign bits, also of zeros and NaN.
void sign_bit_words(const float* gradient, std::int64_t count, std::uint64_t* words);
/// out[i] = -negative if bit first + i is 1, else positive.
/// @param num_bytes  readable length of `bits`
void scale_signs(const std::uint8_t* bits, std::int64_t num_bytes, std::int64_t first, std::int64_t count,
                 float positive, float negative, float* out);
}  // namespace cpu

}  // namespace terngrad
