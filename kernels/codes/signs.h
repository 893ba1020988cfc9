// Signs: gradients in, a bit for each element out; and what bits stand for.
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

/// Which bit elements have that are 0, of either sign.
enum class ZeroSign : std::uint8_t {
  kAlternate,  // the parity of step + worker + position in the segment
  kPlus,       // 0
  kOwn,        // their sign bit: 1 for -0
};

struct SignOptions {
  ZeroSign zeros = ZeroSign::kAlternate;
  bool votes = false;   // elements without a scaler count as 0 (ZeroSign); else they are plus
  bool lanes = false;   // lanes of one level (CodeFormat::kLanes) in place of bits
  int num_workers = 1;  // whose bits lanes must be able to count
  /// Scalers are pairs, and an element counts where one of its pair is positive. Bits only.
  bool two_scalers = false;
  std::int64_t columns = 0;  // of pairs: position p of the segment has pair p mod columns; 0: tasks say which
};

namespace cuda {
class SignRunner;
}

/// Takes the signs of slices (CodeFormat::kBits): bit 1 where g < 0, 0 where g > 0, and of zeros as ZeroSign says
/// (Bernstein et al., "signSGD: Compressed Optimisation for Non-Convex Problems", ICML 2018). An element's scaler only
/// says whether it counts: where it is NaN or 0 the element's value is not looked at.
///
/// Elements must be finite, or their scaler NaN or 0; those of 16 bits are widened to float32 first. Nothing is drawn:
/// of the key step and worker are used. Bit-equal on every backend, for any split into slices, any alignment of the
/// gradient, number of threads and SIMD width. With the tasks of the call before it allocates nothing, copies nothing
/// from the host and does not wait, so that it can be captured into a CUDA graph. Serves one stream.
class SignPacker {
 public:
  explicit SignPacker(Device device = Device::cpu());

  /// Writes every task's payload: payload_bytes(CodeFormat::kBits, count, 1) bytes, or of lanes
  /// payload_bytes(CodeFormat::kLanes, count, num_workers, 1).
  /// @param tasks        any number, of any sizes; payloads must not overlap
  /// @param device_step  as in Ternarizer::run
  /// @throws InvalidArgument as check_quantize_tasks, for lanes of no workers or of two scalers, negative columns
  /// or columns of one scaler, another device's stream, or device_step
  /// on the CPU, before anything is written
  void run(std::span<const QuantizeTask> tasks, const SignOptions& options, const DrawKey& key, Stream& stream,
           const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::SignRunner> cuda_;
};

/// Checks that bits are what an encoder can have written: their length, and zeros behind the last. check_payload does
/// this for all formats. @throws CommunicationError saying what is wrong
void check_bits(const PackedCodes& codes);

namespace cpu {
/// The signs of `count` elements, at most a chunk, as words of 64 bits, low bits first; unused bits are zero.
/// @param zeros  the bits of 64 elements that are 0
void sign_words(const float* gradient, std::int64_t count, std::uint64_t zeros, std::uint64_t* words);
/// The same of the sign bits, which zeros and NaN have, too.
void sign_bit_words(const float* gradient, std::int64_t count, std::uint64_t* words);
/// out[i] = -negative where bit first + i is 1, else positive.
/// @param num_bytes  of `bits`, which are read up to there and not beyond
void scale_signs(const std::uint8_t* bits, std::int64_t num_bytes, std::int64_t first, std::int64_t count,
                 float positive, float negative, float* out);
}  // namespace cpu

}  // namespace terngrad
