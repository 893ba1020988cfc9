// Tree sums: the mean over workers of floating-point values, in the summation order that is part of the format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/codes/ternary.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// Storage format of a worker's slice.
enum class LeafFormat : std::uint8_t {
  kFloat32,
  kBfloat16,
  // Ternary codes; value = scaler * code:
  kT2,
  kT5,
  kTMask,
  // Codes from -L to L; value = fl(scaler / L) * code:
  kQ4,
  kQ8,
  // FP8 numbers; value = scaler * number:
  kE4M3,
  // Powers of two; value = scaler * power:
  kN8,
  kN4,
  // Signs; value = -scaler if the bit is 1, else scaler:
  kBits,
  // Codes of a codebook; value = scaler * level:
  kE2,
  kE3,
  kE4,
  // Signs with a scaler for each sign; value = -a- or a+; scalers are pairs, a- first:
  kSides,
  // Ternary codes, on the CPU only. Last, because GPU kernels are numbered by these values:
  kTrans,
};

/// "fp32", "bf16", "t2", "t5", "tmask", "q4", "q8", "e4m3", "n8", "n4", "bits", "e2", "e3", "e4", "sides",
/// "trans".
std::string to_string(LeafFormat format);
/// Leaf format of one worker's codes. @throws InvalidArgument for lanes, which hold sums of codes
LeafFormat leaf_format(CodeFormat format);

/// One worker's elements of a slice.
struct MeanLeaf {
  /// At least the length of the format, aligned to the element size (4 bytes for codes). Codes must have passed
  /// check_payload if in host memory; for tmask on a GPU it may have the payload's capacity.
  std::span<const std::uint8_t> payload;
  const float* scalers = nullptr;  // for codes: [blocks that the slice touches], or as many pairs
  int num_workers = 1;             // number of workers in the sum; above 1 only for floats on the CPU
};

/// out[i] = scale * tree-sum over workers k of leaf_k[i], in float32. On a GPU payloads, scalers and out are device
/// memory; the table of workers is host memory on every backend.
struct MeanTask {
  LeafFormat format = LeafFormat::kFloat32;
  std::span<const MeanLeaf> workers = {};  // at least one
  std::int64_t first = 0;                  // offset of the slice in the segment, a multiple of kChunkElements
  std::int64_t count = 0;
  std::int64_t block_elements = 0;  // elements per scaler, a multiple of kMinBlockElements; 0 = one for all
  float scale = 1;                  // final factor, fl(1 / N) for a mean
  float* out = nullptr;             // [count] out, any 4-byte alignment; must not overlap a leaf
  /// Ternary codes only: scalers are pairs, first for codes 0 and 1, then for code -1 (TernaryLevels::kAsymmetric).
  bool two_scalers = false;
  std::int64_t columns = 0;  // kSides: position p of the segment has pair p mod columns; 0: by blocks
};

/// Decodes elements [first, first + out.size()) of one worker's slice to the values that the tree sums. Host memory.
/// @param task  its format, first, count and block_elements describe the leaf
void decode_leaf(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out);

/// Maximum number of workers on a GPU.
inline constexpr int kMaxTreeWorkers = 32767;

namespace cuda {
class TreeSumRunner;
}

/// Tree sums step after step: aggregate_tree (kernels/codes/code_sum.h) for leaf formats that both backends support. On
/// a GPU it caches the task tables: a call with the same tasks as the previous one neither allocates, copies nor waits.
/// Use each object with one stream only.
class TreeSummer {
 public:
  explicit TreeSummer(Device device = Device::cpu());

  /// Runs every task.
  ///
  /// The tree is part of the format (contract B2): a range of m > 1 workers splits at the largest power of two below m,
  /// left plus right. Bit-equal on every backend and for any number of threads; a NaN result is canonical_nan() on a
  /// GPU, and on the CPU the NaN that its additions propagate.
  /// @throws InvalidArgument for a payload of the wrong length, codes without scalers, two scalers for leaves that are
  /// not ternary, columns for formats other than kSides, a misaligned `first`, `block_elements` or payload, no workers
  /// or (on a GPU) more than 32767, partial sums that do not make up the tree or (on a GPU) any partial sum, or a
  /// stream of another device; NotSupported for trans on a GPU
  void run(std::span<const MeanTask> tasks, Stream& stream);

 private:
  Device device_;
  std::shared_ptr<cuda::TreeSumRunner> cuda_;
};

}  // namespace terngrad
