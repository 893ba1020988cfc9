// Ternarize and pack: gradients in, codes out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "kernels/codes/rounding.h"
#include "kernels/codes/ternary.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Runs of elements that share one scaler are multiples of this long (except for the last of a segment).
inline constexpr std::int64_t kMinBlockElements = 64;
/// Elements of a slice in format tmask, whose offsets of signs have 32 bits: whole chunks with at most 2^32 - 1 bytes.
inline constexpr std::int64_t kMaxTMaskElements = (std::int64_t{1} << 35) - kChunkElements;

/// One slice to ternarize: where its elements, scalers and codes are.
struct TernarizeTask {
  const void* gradient = nullptr;  // [count] elements first .. first + count - 1 of the segment, aligned to their size
  std::int64_t first = 0;          // position in the segment: a multiple of kChunkElements
  std::int64_t count = 0;
  std::int64_t draw_offset = 0;     // of the segment; a multiple of kDrawAlignment
  std::int64_t block_elements = 0;  // elements per scaler, counted from the segment's start; 0 = one scaler for all
  const float* scalers = nullptr;   // [blocks that the slice touches] s of each; asymmetric: twice as many
  const float* clips = nullptr;     // null, or like scalers: |g| is cut to this before it is compared with s
  std::uint8_t* payload = nullptr;  // [payload_bytes(format, count, num_workers)] out, 4-byte aligned, lanes 8
  std::uint32_t worker = 0;         // added to the key's worker number
  ElementType type = ElementType::kFloat32;  // of the gradient; the same in all tasks of a call
};

/// What the codes +1 and -1 stand for.
enum class TernaryLevels : std::uint8_t {
  kSymmetric,   // s and -s
  kAsymmetric,  // s+ and -s-: scalers and clips are pairs, that of the positive side first
};

struct TernarizeOptions {
  TernaryFormat format = TernaryFormat::kT2;
  int num_workers = 1;  // whose codes lanes must be able to sum; used by kLanes only
  /// Second stream of draws, for ties; `key` is the first. Both come from the same seed, step and worker.
  DrawPurpose refine_purpose = DrawPurpose::kTernarizeRefine;
  Rounding rounding = Rounding::kStochastic;
  TernaryLevels levels = TernaryLevels::kSymmetric;  // kAsymmetric: codes cannot be summed, so kLanes is refused
};

/// Ternarizes g: code = sign(g) with probability min(|g| / s, 1), else 0. Unbiased where |g| <= s: E[s * code] = g (Wen
/// et al., "TernGrad", NIPS 2017, section 3; s there is max|g|), to within 2^-23 |g| + 2^-40 s: draws have 40 bits, and
/// what is left of a probability is rounded up.
///
/// The draw, to the bit: inv = fl(1 / s), m = min(|g|, clip); m >= s gives +-1; else t = fl(m * inv) * 65536 and h =
/// floor(t): non-zero if r16 < h, or if r16 == h and r24 < (t - h) * 2^24, where r16 = draw16(key, d) and r24 =
/// draw32(refine key, d)
/// >> 8 with d = draw_offset + position in the segment. Zeros, and all elements where s is NaN or below kMinScaler,
/// give 0.
///
/// Rounded to nearest the code is sign(g) where fl(2 m) >= s, else 0, and nothing is drawn: with s = 1.22 sigma the
/// ternary quantizer of least error for a Gaussian. Of asymmetric levels s is that of the element's side, and so is
/// what clips it; a side whose scaler is NaN or below kMinScaler has zeros.
///
/// @param tasks  any number, of any sizes; payloads must not overlap. Device memory on a GPU's stream
/// @param bytes  [tasks.size()] out: bytes written to each payload: payload_bytes(...), or less for tmask and trans.
/// Host memory
/// @throws InvalidArgument for a misaligned `first`, `block_elements`, gradient or payload, tasks of different
/// element types, lanes of asymmetric levels, or more than kMaxTMaskElements in one of tmask or kMaxTransElements of
/// trans (kernels/codes/trans_payload.h), NotSupported for trans on a GPU, before anything is written.
///
/// Elements must be finite, or their scaler NaN or 0; those of 16 bits are widened to float32 first. Bit-equal on every
/// backend, for any split into slices, any alignment of the gradient, number of threads and SIMD width. On a GPU's
/// stream the host waits; a Ternarizer does not make it.
void ternarize(std::span<const TernarizeTask> tasks, const TernarizeOptions& options, const DrawKey& key,
               std::span<std::int64_t> bytes, Stream& stream);

namespace cuda {
class TernarizeRunner;
}

/// ternarize() for every step: keeps what a GPU needs from call to call. With the tasks of the call before it allocates
/// nothing, copies nothing from the host and does not wait, so that it can be captured into a CUDA graph; except for
/// tmask, whose sizes depend on the data: the host waits for them, and a capture is refused.
class Ternarizer {
 public:
  explicit Ternarizer(Device device = Device::cpu());

  /// As ternarize().
  /// @param device_step  null, or where on the GPU the step is that the draws are keyed by, in place of key.step: a
  /// graph
  ///                     that is replayed draws from scratch when the value there has changed
  /// @throws InvalidArgument also for another device's stream, or device_step on the CPU
  void run(std::span<const TernarizeTask> tasks, const TernarizeOptions& options, const DrawKey& key,
           std::span<std::int64_t> bytes, Stream& stream, const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::TernarizeRunner> cuda_;
};

/// Blocks of `block_elements` that a slice touches: 1 if block_elements is 0, 0 for an empty slice.
std::int64_t num_blocks(std::int64_t first, std::int64_t count, std::int64_t block_elements);

namespace cpu {

/// The codes of one chunk as two bit planes: bit i % 64 of word i / 64.
struct CodePlanes {
  std::uint64_t nonzero[kChunkElements / 64];
  std::uint64_t negative[kChunkElements / 64];  // a subset of nonzero
};

/// Ternarizes the chunk of a task that begins `begin` elements into it; unused bits are zero.
/// @param gradient  the chunk's elements; task.gradient is not read
/// @param prefetch  what to fetch into the cache while the draws are made
void ternarize_chunk(const TernarizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                     const DrawKey& key, const TernarizeOptions& options, std::span<const std::byte> prefetch,
                     CodePlanes& planes);

}  // namespace cpu

}  // namespace terngrad
