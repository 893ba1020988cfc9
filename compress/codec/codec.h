// Codec: how the gradient of a tensor is turned into bytes, and how the bytes of all workers become a mean.
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

struct CodecTraits {
  double bits_per_element = 32;  // of the payload, without headers and scalers
  bool fixed_size = true;  // bits_per_element is exact; else the most, except for 32 bits a chunk (tmask) or 48 (trans)
  float max_scaler = std::numeric_limits<float>::max();  // that a message may carry; 0: they say nothing
  bool unbiased = true;                                  // E[decoded] = gradient
  bool is_exact = false;                                 // decoded = gradient
  bool wants_error_feedback = false;
  bool summable = false;       // codes of different workers add up as integers
  int levels = 1;              // L of codes from -L to L, which are multiples of s / L
  bool votes = false;          // of summable codes: the mean is s times the sign of their sum, which no worker's own is
  bool sums_as_float = false;  // elements of different workers add up in fp32, in the order of
                               // kernels/tensor/worker_tree.h: sums over subtrees may travel in place of slices
  /// What the codec's number of scalers depends on besides elements: it is for tensors of so many columns, which is
  /// their last dimension, or 0 where it is the only one.
  static constexpr std::int64_t kAnyColumns = -1;
  std::int64_t columns = kAnyColumns;
  bool per_tensor = true;  // what becomes of a tensor depends on no other tensor, so they may travel apart
  /// Tensors are cut into slices at multiples of this many elements, which is one of kChunkElements, or not at all.
  static constexpr std::int64_t kWholeTensors = std::numeric_limits<std::int64_t>::max();
  std::int64_t grain_elements = kChunkElements;
  /// A payload says where it ends, so that what lies behind it in a room of max_payload_bytes is not looked at: such go
  /// through places of one size between GPUs though their size depends on the data.
  bool self_delimiting = false;
  bool is_sparse = false;  // a message holds some elements, and says which
  /// What is decoded is scaled up for what was left out, so that error feedback would add to its residual without
  /// bound.
  bool is_amplified = false;
};

/// How the local scalers of a tensor combine over workers before encoding.
enum class ScalerSharing {
  kMax,   // the largest
  kMean,  // the mean in float64, in worker order, rounded once
  kNone,  // every worker keeps its own
};

/// What integer sums of the codes of N workers are (CodecTraits::summable), for the downlink.
struct SumForm {
  int levels = 1;                      // L: a sum is from -L N to L N
  std::int64_t block_elements = 0;     // elements per scaler, as kernels take it; 0: one for a tensor
  CodeFormat drawn = CodeFormat::kT2;  // in which downlink codec ternary packs what it draws of a sum
  bool votes = false;                  // what counts is the sign: -1, 0 or 1, whatever N is. Sums travel as t2
};

/// The largest sum over N workers, s / max_sum of which is the unit of sums.
constexpr int max_sum(int levels, bool votes, int num_workers) { return votes ? 1 : levels * num_workers; }
constexpr int max_sum(const SumForm& form, int num_workers) { return max_sum(form.levels, form.votes, num_workers); }

/// What a payload holds.
enum class PayloadForm {
  kNatural,  // the codec's own format
  kLanes,    // lanes for sums over workers (TernaryFormat::kLanes); summable codecs only
};

/// A tensor as the product of two thin factors, which all workers find together in two rounds of their exchange
/// (compress/exchange/low_rank_all_reduce.h).
struct LowRankForm {
  int rank = 4;            // the most columns of a factor; at most either dimension of the tensor
  bool warm_start = true;  // a step begins with the factor that the last one found, else with one that is drawn
  ElementType factors = ElementType::kFloat32;  // or kBfloat16: as which they travel
};

/// What keys the draws that are the same for all workers.
struct StepKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
};

/// One slice as it came in a message.
struct EncodedSlice {
  Slice slice;
  std::uint8_t format = 0;                // the codec's own number, as in the record
  std::span<const float> scalers;         // those that the slice touches
  std::span<const std::uint8_t> payload;  // 8-byte aligned
  std::optional<StepKey> key = {};        // of the step it was encoded in; needed by codecs that rotate only
  std::int64_t draw_offset = 0;           // of its segment; likewise
};

/// What aggregating writes.
enum class AggregateUnit {
  kMean,  // the mean over workers
  kSums,  // the integer sums of codes, or the votes, as float32; summable codecs with shared scalers only
};

class Coder;
struct CoderSetup;
enum class LeafFormat : std::uint8_t;
struct DrawnShape;
struct PayloadSlots;
struct SparseShape;

/// A compression scheme with its options; has no state, so one object serves all workers and threads.
class Codec {
 public:
  virtual ~Codec() = default;

  /// As in the registry.
  virtual const std::string& name() const = 0;
  /// Number in message records; never reused.
  virtual std::uint8_t wire_id() const = 0;
  virtual CodecTraits traits() const = 0;
  virtual ScalerSharing sharing() const = 0;
  /// @throws InvalidArgument for a codec that is not summable
  virtual SumForm sum_form() const;
  /// The options that peers must agree on, as text; part of the fingerprint of a run.
  virtual std::string options_text() const = 0;

  /// Scalers of a whole tensor; at least one for a non-empty tensor (codecs without scalers use it as a non-finite
  /// flag).
  virtual std::int64_t num_scalers(std::int64_t num_elements) const = 0;
  /// First of a tensor's scalers that a non-empty slice touches, and how many.
  struct ScalerRange {
    std::int64_t first = 0;
    std::int64_t count = 0;
  };
  virtual ScalerRange scaler_range(const Slice& slice) const = 0;

  /// Format number that goes into a record for this form.
  virtual std::uint8_t record_format(PayloadForm form) const = 0;
  virtual std::int64_t max_payload_bytes(const Slice& slice, PayloadForm form) const = 0;

  /// Elements of the runs that are rotated before they are encoded (kernels/codes/rotate.h), which its coders see to;
  /// 0: none are. What is decoded and aggregated is rotated still: a rotation is linear and the same for all workers,
  /// so the mean is turned back once, when all else has been done to it (Coder::finish).
  virtual std::int64_t rotation() const { return 0; }

  /// Whether the codec is for tensors of that many elements, of its number of columns; a plan sends others as fp32.
  virtual bool takes(std::int64_t num_elements) const {
    static_cast<void>(num_elements);
    return true;
  }
  /// Set: an exchange has the tensors' means from factors in two rounds. Coder and messages are then those of one
  /// worker by itself, for tools: what an exchange of one worker would send.
  virtual std::optional<LowRankForm> low_rank() const { return std::nullopt; }

  /// How the kernels of tree sums read the codec's own form; none: they cannot.
  struct LeafForm {
    LeafFormat format{};              // kFloat32
    std::int64_t block_elements = 0;  // elements per scaler, as kernels take it; 0: one for a tensor
    bool two_scalers = false;         // MeanTask::two_scalers
    std::int64_t columns = 0;         // MeanTask::columns
  };
  virtual std::optional<LeafForm> leaf_form() const { return std::nullopt; }
  /// What a slice's payload holds, if kernels can read it as a sparse one (kernels/sparse/sparse_sum.h); none: they
  /// cannot, or the slice has no elements.
  virtual std::optional<SparseShape> sparse_form(const Slice& slice) const;
  /// The same as one of drawn elements (kernels/sparse/drawn_payload.h).
  virtual std::optional<DrawnShape> drawn_form(const Slice& slice) const;

  /// The codec's work in an exchange (compress/codec/coder.h).
  /// @param segments  the layout's tensors that use this codec, in order
  /// @param slots     the slices of them that are encoded and aggregated, and where their payloads are; outlives the
  ///                  coder, as this codec does
  /// @throws NotSupported for a device that the codec has no work for: a GPU, where it has no kernels and cannot go
  /// through the host either (compress/codec/host_coder.h)
  virtual std::unique_ptr<Coder> make_coder(const CoderSetup& setup, const std::vector<int>& segments,
                                            PayloadSlots& slots) const = 0;

  /// Checks a slice from a message: format, length and content. Aggregating it afterwards reads nothing out of bounds.
  /// @throws CommunicationError
  virtual void check(const EncodedSlice& encoded) const = 0;

  /// Decodes elements [first, first + out.size()) of one worker's slice, which has passed check. What was rotated is so
  /// still.
  /// @param first  a multiple of kChunkElements
  virtual void decode_range(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const = 0;
  /// Decodes all of it, turned back. @param out  [slice.count]. @throws InvalidArgument if it has another size, or if
  /// the codec rotates and the slice has no key
  void decode(const EncodedSlice& encoded, std::span<float> out) const;
  /// The same of a part. @param out  up to a multiple of kChunkElements, or to the slice's end
  void decode_part(const EncodedSlice& encoded, std::int64_t first, std::span<float> out) const;
};

/// Whether what a worker encodes depends on the scalers of others: on more than flags of tensors that are not finite.
bool shares_scalers(const Codec& codec);
/// Whether tensors of this codec may be among those whose mean travels back as codes (downlink codecs sums and
/// ternary): their own codes add up as integers, or they are numbers, whose mean stays in float32 there.
bool may_return_codes(const Codec& codec);

/// Checks what a worker's message says of a slice besides its content: scalers are numbers from 0 to
/// CodecTraits::max_scaler.
/// @throws CommunicationError
void check_scalers(const Codec& codec, const EncodedSlice& encoded);

}  // namespace terngrad
