// Tree sums: the mean over workers of floating-point values, added in the one order that is part of the format.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/codes/ternary.h"
#include "kernels/runtime/device.h"

namespace terngrad {

/// How the elements of a worker's slice are stored.
enum class LeafFormat : std::uint8_t {
  kFloat32,
  kBfloat16,
  // Ternary codes, an element being scaler * code:
  kT2,
  kT5,
  kTMask,
  // Codes from -L to L, an element being fl(scaler / L) * code:
  kQ4,
  kQ8,
  // FP8 numbers, an element being scaler * number:
  kE4M3,
  // Powers of two, an element being scaler * power:
  kN8,
  kN4,
  // Signs, an element being -scaler where its bit is 1, else scaler:
  kBits,
  // Signs with a scaler for each side, an element being -a- or a+; scalers are pairs, a- first:
  kSides,
  // Ternary codes, on the CPU only; last, since kernels for GPUs are numbered by their formats:
  kTrans,
};

/// "fp32", "bf16", "t2", "t5", "tmask", "q4", "q8", "e4m3", "n8", "n4", "bits", "sides", "trans".
std::string to_string(LeafFormat format);
/// The leaves that codes of one worker are. @throws InvalidArgument for lanes, which are made for sums of codes
LeafFormat leaf_format(CodeFormat format);

/// One worker's elements of a slice.
struct MeanLeaf {
  /// At least as long as the format says, at a multiple of its elements' size (of 4 bytes for codes). Codes must have
  /// passed check_payload, as far as it can look; for tmask on a GPU it may be the room that the payload has.
  std::span<const std::uint8_t> payload;
  const float* scalers = nullptr;  // of codes: [blocks that the slice touches], pairs count as two
  int num_workers = 1;             // of numbers on the CPU: more than 1 where it is the sum over a subtree of workers
};

/// out[i] = scale * tree-sum over workers k of leaf_k[i], in float32. On a GPU payloads, scalers and out are device
/// memory; the table of workers is host memory on every backend.
struct MeanTask {
  LeafFormat format = LeafFormat::kFloat32;
  std::span<const MeanLeaf> workers = {};  // at least one
  std::int64_t first = 0;                  // position of the slice in the segment, a multiple of kChunkElements
  std::int64_t count = 0;
  std::int64_t block_elements = 0;  // of codes: elements per scaler, a multiple of kMinBlockElements; 0 = one for all
  float scale = 1;                  // last factor, fl(1 / N) for a mean
  float* out = nullptr;             // [count] out, any 4-byte alignment; must not overlap a leaf
  /// Of ternary codes: scalers are pairs, that of codes 0 and 1 first and then that of -1 (TernaryLevels::kAsymmetric).
  bool two_scalers = false;
  std::int64_t columns = 0;  // of kSides: position p of the segment has pair p mod columns, in place of blocks
};

/// Elements [first, first + out.size()) of one worker's slice, all in host memory: what the tree adds up.
/// @param task  its format, first, count and block_elements say what the leaf holds
void decode_leaf(const MeanTask& task, const MeanLeaf& leaf, std::int64_t first, std::span<float> out);

/// Most workers whose elements a GPU adds up.
inline constexpr int kMaxTreeWorkers = 32767;

namespace cuda {
class TreeSumRunner;
}

/// Tree sums, step after step: aggregate_tree (kernels/codes/code_sum.h) for leaves that both backends can read. On a
/// GPU it keeps the tables of tasks there: a call with the tasks of the last one allocates and copies nothing, and the
/// host does not wait. Serves one stream.
class TreeSummer {
 public:
  explicit TreeSummer(Device device = Device::cpu());

  /// Runs every task.
  ///
  /// The tree is part of the format (contract B2): a range of m > 1 workers splits at the largest power of two below m,
  /// left plus right. Bit-equal on every backend and for any number of threads; a result that is NaN is a GPU's
  /// canonical_nan(), and on the CPU the NaN that its additions pass on.
  /// @throws InvalidArgument for a payload whose length does not fit the task, codes without scalers, two scalers
  /// for leaves that are not ternary, columns for others than sides, a misaligned `first`, `block_elements` or payload,
  /// no workers or (on a GPU) more than 32767, sums that do not make up the tree or (on a GPU) any sum, or a stream of
  /// another device; NotSupported for trans on a GPU
  void run(std::span<const MeanTask> tasks, Stream& stream);

 private:
  Device device_;
  std::shared_ptr<cuda::TreeSumRunner> cuda_;
};

}  // namespace terngrad
