// Codec: encodes the gradient of a tensor into bytes, and defines the mean of all workers' encoded gradients.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/codes/ternary.h"
#include "kernels/random/philox.h"
#include "kernels/runtime/device.h"
#include "kernels/tensor/element_type.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Properties of a codec with its options.
struct CodecTraits {
  double bits_per_element = 32;  // payload bits, without headers and scalers
  bool fixed_size = true;  // bits_per_element is exact; else the maximum, plus 32 bits per chunk (tmask) or 48 (trans)
  float max_scaler = std::numeric_limits<float>::max();  // largest allowed in messages; 0: needs no scalers
  bool unbiased = true;                                  // E[decoded] = gradient
  bool is_exact = false;                                 // decoded = gradient
  bool wants_error_feedback = false;
  bool summable = false;       // codes of different workers can be added as integers
  int levels = 1;              // L: codes are from -L to L, in multiples of s / L
  bool votes = false;          // summable only: majority vote, the mean is s times the sign of the sum of codes
  bool sums_as_float = false;  // elements of different workers can be added in fp32, in the order of
                               // kernels/tensor/worker_tree.h: sums over subtrees may travel in place of slices
  /// Number of columns (last dimension of the tensor; 0 if it has only one) that the codec is made for; kAnyColumns if
  /// the number of scalers does not depend on it.
  static constexpr std::int64_t kAnyColumns = -1;
  std::int64_t columns = kAnyColumns;
  bool per_tensor = true;  // tensors are encoded independently, so they can be exchanged separately
  /// Tensors are cut into slices at multiples of this number, itself a multiple of kChunkElements; kWholeTensors:
  /// never.
  static constexpr std::int64_t kWholeTensors = std::numeric_limits<std::int64_t>::max();
  std::int64_t grain_elements = kChunkElements;
  /// A payload contains its own length, so bytes behind it, up to max_payload_bytes, are ignored. Such payloads of
  /// data-dependent size can use slots of fixed size between GPUs.
  bool self_delimiting = false;
  bool is_sparse = false;  // a message holds only some elements, with their positions
  /// Decoded values are scaled up to make up for dropped elements, so the residual of error feedback would grow without
  /// bound.
  bool is_amplified = false;
  /// The error of a message is below the gradient, E|decoded - g|^2 < |g|^2, for elements with the distribution of a
  /// normal or Laplace variable, most of which may be 0 (vNMSE < 1; EF21 diverges without).
  bool is_contractive = true;
  bool is_stratified = false;  // the draws of all workers are spread evenly, so their messages belong to one step
};

/// Combination of a tensor's local scalers over workers, before encoding.
enum class ScalerSharing {
  kMax,   // the maximum
  kMean,  // the mean in float64, in worker order, rounded once
  kNone,  // every worker keeps its own
};

/// Format of integer sums of the codes of N workers (CodecTraits::summable), for the downlink.
struct SumForm {
  int levels = 1;                      // L: sums are from -L N to L N
  std::int64_t block_elements = 0;     // elements per scaler; 0: one scaler per tensor
  CodeFormat drawn = CodeFormat::kT2;  // packing of the codes that downlink codec ternary draws
  bool votes = false;                  // only the sign of a sum counts: -1, 0 or 1 for any N; it travels as t2
};

/// Largest sum of codes over N workers; the unit of sums is s / max_sum.
constexpr int max_sum(int levels, bool votes, int num_workers) { return votes ? 1 : levels * num_workers; }
constexpr int max_sum(const SumForm& form, int num_workers) { return max_sum(form.levels, form.votes, num_workers); }

/// Format of a payload.
enum class PayloadForm {
  kNatural,  // the codec's own format
  kLanes,    // lanes for sums over workers (TernaryFormat::kLanes); summable codecs only
};

/// Approximation of a tensor by the product of two thin factors, which all workers compute together in two rounds of
/// their exchange (compress/exchange/low_rank_round.h).
struct LowRankForm {
  int rank = 4;            // maximum number of columns of a factor; limited by both dimensions of the tensor
  bool warm_start = true;  // start a step from the last step's factor Q, else from a random one
  ElementType factors = ElementType::kFloat32;  // or kBfloat16: element type on the wire
};

/// Key of the random draws that are the same for all workers.
struct StepKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
};

/// One slice of a message.
struct EncodedSlice {
  Slice slice;
  std::uint8_t format = 0;                // format field of the record; its meaning depends on the codec
  std::span<const float> scalers;         // scalers that the slice uses
  std::span<const std::uint8_t> payload;  // 8-byte aligned
  std::optional<StepKey> key = {};        // seed and step of encoding; needed by codecs that rotate only
  std::int64_t draw_offset = 0;           // Segment::draw_offset of its tensor; likewise
};

/// Output of Coder::aggregate.
enum class AggregateUnit {
  kMean,  // the mean over workers
  kSums,  // integer sums of codes, or votes, as float32; summable codecs with shared scalers only
};

class Coder;
enum class TailRotation : std::uint8_t;
struct CoderSetup;
enum class LeafFormat : std::uint8_t;
struct DrawnShape;
struct PayloadSlots;
struct SparseShape;

/// A compression scheme with its options. Stateless, so one object serves all workers and threads.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Name in the registry.
  virtual const std::string& name() const = 0;
  /// Codec number in message records; never reused.
  virtual std::uint8_t wire_id() const = 0;
  virtual CodecTraits traits() const = 0;
  virtual ScalerSharing sharing() const = 0;
  /// Format of sums of codes. @throws InvalidArgument for a codec that is not summable
  virtual SumForm sum_form() const;
  /// Options that peers must agree on, as text; part of a run's fingerprint.
  virtual std::string options_text() const = 0;

  /// Number of scalers of a whole tensor; at least one for a non-empty tensor (codecs without scalers use it as
  /// non-finite flag).
  virtual std::int64_t num_scalers(std::int64_t num_elements) const = 0;
  /// Range of a tensor's scalers that a non-empty slice uses.
  struct ScalerRange {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  virtual ScalerRange scaler_range(const Slice& slice) const = 0;

  /// Format number of a message record for this form.
  virtual std::uint8_t record_format(PayloadForm form) const = 0;
  virtual std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const = 0;

  /// Run length of the random rotation that coders apply before encoding (kernels/codes/rotate.h); 0: no rotation.
  /// Decoded and aggregated values are still rotated: a rotation is linear and the same for all workers, so the inverse
  /// is applied once, to the final mean (Coder::finish).
  virtual std::int64_t rotation() const { return 0; }
  /// Rotation of what a tensor has behind its last whole run.
  virtual TailRotation tail_rotation() const;

  /// True if the codec supports tensors with this number of elements and the codec's columns; a plan sends others as
  /// fp32.
  virtual bool takes(std::int64_t num_elements) const {
    static_cast<void>(num_elements);
    return true;
  }
  /// Set for low-rank codecs, whose means an exchange computes from factors in two rounds. Their coder and messages,
  /// which are for tools, are those of an exchange with a single worker.
  virtual std::optional<LowRankForm> low_rank() const { return std::nullopt; }

  /// Arguments with which the tree-sum kernels can read the codec's natural form; none if they cannot.
  struct LeafForm {
    LeafFormat format{};              // kFloat32
    std::int64_t block_elements = 0;  // elements per scaler; 0: one scaler per tensor
    bool two_scalers = false;         // MeanTask::two_scalers
    std::int64_t columns = 0;         // MeanTask::columns
  };
  virtual std::optional<LeafForm> leaf_form() const { return std::nullopt; }
  /// Shape of a slice's payload if kernels can read it as sparse (kernels/sparse/sparse_sum.h); none if they cannot, or
  /// if the slice is empty.
  virtual std::optional<SparseShape> sparse_form(const Slice& slice) const;
  /// Likewise for payloads of randomly drawn elements (kernels/sparse/drawn_payload.h).
  virtual std::optional<DrawnShape> drawn_form(const Slice& slice) const;

  /// First steps of the stages in which payloads have other sizes, ascending, with 0.
  virtual std::vector<std::uint64_t> stages() const { return {0}; }
  /// The codec that encodes as this one does in the stage of a step, for exchanges on GPUs, whose payloads have one
  /// size; nullptr: this one.
  virtual std::shared_ptr<const Codec> at_step(std::uint64_t /*step*/) const { return nullptr; }

  /// Makes the coder, which does the codec's work in an exchange (compress/codec/coder.h).
  /// @param segments  the layout's tensors that use this codec, in order
  /// @param slots     their slices to encode and aggregate, and the addresses of payloads; must outlive the coder, as
  ///                  must this codec
  /// @throws NotSupported on a GPU if the codec has no kernels and cannot go through the host
  /// (compress/codec/host_coder.h)
  virtual std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                            PayloadSlots& slots) const = 0;

  /// Checks format, length and content of a slice from a message, so that aggregating it reads nothing out of bounds.
  /// @throws CommunicationError if it is invalid
  virtual void check(const EncodedSlice& encoded) const = 0;

  /// Decodes elements [first, first + out.size()) of one worker's slice, which must have passed check. Rotated values
  /// stay rotated.
  /// @param first  a multiple of kChunkElements
  virtual void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const = 0;
  /// Decodes a whole slice and inverts the rotation. @param out  [slice.count]. @throws InvalidArgument if it has
  /// another size, or if the codec rotates and the slice has no key
  void decode(const EncodedSlice& encoded, std::span<float> out) const;
  /// The same for a part of a slice. @param out  ends at a multiple of kChunkElements, or at the slice's end
  void decode_part(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const;
};

/// True if a worker's codes depend on other workers' scalers, beyond the flags of non-finite tensors.
bool shares_scalers(const Codec& codec);
/// True if the downlink codecs sums and ternary support tensors of this codec: their codes can be added as integers, or
/// the codec sends floats, whose mean then stays in float32.
bool may_return_codes(const Codec& codec);

/// Checks the scalers of a slice from a message: each must be in [0, CodecTraits::max_scaler].
/// @throws CommunicationError if one is not
void check_scalers(const Codec& codec, const EncodedSlice& encoded);

}  // namespace terngrad
