// Ternarizes gradients (TernGrad) and packs the codes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

#include "kernels/codes/quantize_task.h"
#include "kernels/codes/rounding.h"
#include "kernels/codes/ternary.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Blocks of elements that share one scaler are multiples of this length (except for the last one of a segment).
inline constexpr std::int64_t kMinBlockElements = 64;
/// Maximum elements of a tmask slice, whose sign offsets have 32 bits: whole chunks with at most 2^32 - 1 bytes.
inline constexpr std::int64_t kMaxTMaskElements = (std::int64_t{1} << 35) - kChunkElements;

/// One slice to ternarize: its elements, scalers and output.
struct TernarizeTask {
  const void* gradient = nullptr;  // [count] elements from `first` on, aligned to their size
  std::int64_t first = 0;          // offset in the segment: a multiple of kChunkElements
  std::int64_t count = 0;
  std::int64_t draw_offset = 0;     // the segment's first draw index; a multiple of kDrawAlignment
  std::int64_t block_elements = 0;  // elements per scaler, counted from the segment's start; 0 = one scaler for all
  const float* scalers = nullptr;   // [blocks that the slice touches]; asymmetric levels: pairs
  const float* clips = nullptr;     // null, or like scalers: |g| is clipped to this before the comparison with s
  std::uint8_t* payload = nullptr;  // [payload_bytes(format, count, num_workers)] out, 4-byte aligned, lanes 8
  std::uint32_t worker = 0;         // added to the key's worker number
  ElementType type = ElementType::kFloat32;  // the gradient's type, the same in all tasks of a call
};

/// The same slice for ternary codes.
TernarizeTask ternarize_task(const QuantizeTask& task);

/// Values of the codes +1 and -1.
enum class TernaryLevels : std::uint8_t {
  kSymmetric,   // s and -s
  kAsymmetric,  // s+ and -s-: scalers and clips are pairs, positive side first
};

/// Options of encoding as ternary codes.
struct TernarizeOptions {
  TernaryFormat format = TernaryFormat::kT2;
  int num_workers = 1;  // N: codes of N workers must fit lanes (kLanes); N workers share draws (kStratified)
  /// Second stream of draws, for ties; `key` is the first. Both have the same seed, step and worker.
  DrawPurpose refine_purpose = DrawPurpose::kTernarizeRefine;
  Rounding rounding = Rounding::kStochastic;
  TernaryLevels levels = TernaryLevels::kSymmetric;  // kAsymmetric: codes cannot be summed, so kLanes is refused
};

/// Ternarizes g: code = sign(g) with probability min(|g| / s, 1), else 0. Unbiased if |g| <= s: E[s * code] = g (Wen et
/// al., "TernGrad", NIPS 2017, section 3; s there is max|g|), to within 2^-23 |g| + 2^-40 s: draws have 40 bits, and
/// probabilities are rounded up to them.
///
/// Bit-exact definition: inv = fl(1 / s), m = min(|g|, clip). If m >= s the code is sign(g). Otherwise t = fl(m * inv)
/// * 65536 and h = floor(t), and the code is nonzero if r16 < h, or if r16 == h and r24 < (t - h) * 2^24, where r16 =
/// draw16(key, d) and r24 = draw32(refine key, d) >> 8 with d = draw_offset + position in the segment. Zeros, and all
/// elements if s is NaN or below kMinScaler, give 0.
///
/// With Rounding::kStratified and N > 1 all workers share the draws of worker 0, and r16 and r24 are Stratum::draw16
/// and Stratum::refinement of them (kernels/random/strata.h), with the stratum of worker key.worker + task.worker,
/// flipped for negative elements. Each code has the same distribution as with kStochastic, but the errors of different
/// workers cancel. Consecutive tasks for the same elements of different workers draw once for all of them: on the CPU,
/// and on a GPU in whole chunks of t2.
///
/// With Rounding::kNearest the code is sign(g) if fl(2 m) >= s, else 0, without draws: with s = 1.22 sigma this is the
/// ternary quantizer of least error for a Gaussian. With asymmetric levels s and clip are those of the element's side;
/// a side whose scaler is NaN or below kMinScaler gives zeros.
///
/// Elements must be finite unless their scaler is NaN or 0; 16-bit elements are widened to float32 first. Bit-equal on
/// every backend, for any split into slices, alignment of the gradient, number of threads and SIMD width. On a GPU's
/// stream the call waits; a Ternarizer does not.
///
/// @param tasks  any number of slices of any size; payloads must not overlap. Device memory on a GPU's stream
/// @param bytes  [tasks.size()] out, host memory: bytes written to each payload: payload_bytes(...), or less for tmask
///               and trans
/// @throws InvalidArgument for a misaligned `first`, `block_elements`, gradient or payload, tasks with different
/// element types, lanes of asymmetric levels, a worker that is not below N with kStratified, or more than
/// kMaxTMaskElements in a tmask slice or kMaxTransElements in a trans slice (kernels/codes/trans_payload.h),
/// NotSupported for trans on a GPU, before anything is written
void ternarize(std::span<const TernarizeTask> tasks, const TernarizeOptions& options, const DrawKey& key,
               std::span<std::int64_t> bytes, Stream& stream);

namespace cuda {
class TernarizeRunner;
}

/// ternarize() for repeated use. A call with the same tasks as the previous one neither allocates, copies from the host
/// nor waits, so it can be captured into a CUDA graph. The exception is tmask, whose sizes depend on the data: the host
/// waits for them, and a capture is refused.
class Ternarizer {
 public:
  explicit Ternarizer(Device device = Device::cpu());

  /// As ternarize().
  /// @param device_step  null, or the step of the draws in device memory, which replaces key.step: replays of a
  ///                     captured graph make new draws when this value has changed
  /// @throws InvalidArgument also for another device's stream, or device_step on the CPU
  void run(std::span<const TernarizeTask> tasks, const TernarizeOptions& options, const DrawKey& key,
           std::span<std::int64_t> bytes, Stream& stream, const std::uint64_t* device_step = nullptr);

 private:
  Device device_;
  std::shared_ptr<cuda::TernarizeRunner> cuda_;
};

/// Number of blocks of `block_elements` that a slice touches: 1 if block_elements is 0, 0 for an empty slice.
std::int64_t num_blocks(std::int64_t first, std::int64_t count, std::int64_t block_elements);

namespace cpu {

struct ChunkDraws;

/// The codes of one chunk as two bit planes: code i is bit i % 64 of word i / 64.
struct CodePlanes {
  std::uint64_t nonzero[kChunkElements / 64];
  std::uint64_t negative[kChunkElements / 64];  // a subset of nonzero
};

/// Ternarizes the chunk that begins `begin` elements into a task; unused bits are zero.
/// @param gradient  the chunk's elements; task.gradient is not read
/// @param key       with the task's worker
/// @param prefetch  memory to prefetch while draws are generated
/// @param draws     filled by the first call that needs them
void ternarize_chunk(const TernarizeTask& task, const float* gradient, std::int64_t begin, std::int64_t count,
                     const DrawKey& key, const TernarizeOptions& options, std::span<const std::byte> prefetch,
                     ChunkDraws& draws, CodePlanes& planes);

}  // namespace cpu

}  // namespace terngrad
