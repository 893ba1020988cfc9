// Codec: how the gradient of a tensor is turned into bytes, and how the bytes of all workers become a mean.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/philox.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

struct CodecTraits {
  double bits_per_element = 32;  // of the payload, without headers and scalers
  bool fixed_size = true;        // bits_per_element is exact; else the most, except for 32 bits a chunk (tmask)
  float max_scaler = std::numeric_limits<float>::max();  // that a message may carry; 0: they say nothing
  bool unbiased = true;                                  // E[decoded] = gradient
  bool wants_error_feedback = false;
  bool summable = false;       // codes of different workers add up as integers
  bool sums_as_float = false;  // elements of different workers add up in fp32, in the order of
                               // kernels/tensor/worker_tree.h: sums over subtrees may travel in place of slices
  bool per_tensor = true;      // what becomes of a tensor depends on no other tensor, so they may travel apart
};

/// How the local scalers of a tensor combine over workers before encoding.
enum class ScalerSharing {
  kMax,   // the largest
  kMean,  // the mean in float64, in worker order, rounded once
  kNone,  // every worker keeps its own
};

/// What a payload holds.
enum class PayloadForm {
  kNatural,  // the codec's own format
  kLanes,    // lanes for sums over workers (TernaryFormat::kLanes); summable codecs only
};

/// One slice of one worker's tensor to encode.
struct EncodeJob {
  Slice slice;
  std::span<const float> local;     // this worker's scalers that the slice touches; NaN: encode zeros
  std::span<const float> shared;    // the scalers to encode with, after sharing
  std::uint8_t* payload = nullptr;  // [max_payload_bytes(slice, ...)] out, 8-byte aligned
  std::int64_t payload_bytes = 0;   // out
};

/// One slice as it came in a message.
struct EncodedSlice {
  Slice slice;
  std::uint8_t format = 0;                // the codec's own number, as in the record
  std::span<const float> scalers;         // those that the slice touches
  std::span<const std::uint8_t> payload;  // 8-byte aligned
};

/// What aggregate writes.
enum class AggregateUnit {
  kMean,        // the mean over workers
  kSums,        // the integer sums of codes, as float32; summable codecs with shared scalers only
  kPartialSum,  // the sum over the workers of a subtree, in float32; codecs that add floats only
};

struct AggregateJob {
  Slice slice;
  std::span<const EncodedSlice> messages;  // one per worker in order; of lanes possibly fewer, each a sum over several
  float* out = nullptr;                    // [slice.count]
  std::span<const int> workers = {};       // where messages are sums over subtrees: fp32, of that many workers each
};

/// One worker's side of a codec for a set of tensors; holds its workspace. Gradients may be of any element type and
/// count as widened to float32; an encoder that takes float32 only refuses others with InvalidArgument, as
/// TensorTable::tensor() and slice() do.
class Encoder {
 public:
  virtual ~Encoder() = default;

  /// Measures this worker's local scalers, tensor after tensor. A tensor with NaN or infinity gets the canonical NaN in
  /// every scaler that covers such an element.
  /// @param scalers  [sum of num_scalers over the encoder's tensors] out
  virtual void measure(const TensorTable& gradient, std::span<float> scalers, const DrawKey& key, Stream& stream) = 0;

  /// Encodes slices. Draws depend on `key` (its purpose is set here) and on positions in the layout only.
  virtual void encode(const TensorTable& gradient, std::span<EncodeJob> jobs, PayloadForm form, const DrawKey& key,
                      Stream& stream) = 0;
};

class DeviceCoder;
struct DeviceExchangeSetup;
struct DeviceSlots;

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

  /// @param segments  indices of the layout's tensors that use this codec
  virtual std::unique_ptr<Encoder> make_encoder(const Layout& layout, std::vector<int> segments) const = 0;

  /// The codec's work for gradients that stay in a GPU's memory (compress/codecs/device_coder.h).
  /// @param segments  the layout's tensors that use this codec, in order
  /// @param slots     the slices of them that are encoded and aggregated, and where their payloads are
  /// @throws NotSupported where the codec has none
  virtual std::unique_ptr<DeviceCoder> make_device_coder(const DeviceExchangeSetup& setup,
                                                         const std::vector<int>& segments,
                                                         const DeviceSlots& slots) const;

  /// Checks a slice from a message: format, length and content. Aggregating it afterwards reads nothing out of bounds.
  /// @throws CommunicationError
  virtual void check(const EncodedSlice& encoded) const = 0;

  /// Combines all workers' slices. Bit-equal for any split of a tensor into slices and any number of threads.
  /// @throws CommunicationError if shared scalers differ between messages
  virtual void aggregate(std::span<const AggregateJob> jobs, AggregateUnit unit, Stream& stream) const = 0;

  /// Decodes one worker's slice by itself. @param out [slice.count]
  virtual void decode(const EncodedSlice& encoded, std::span<float> out) const = 0;
};

/// Checks what a worker's message says of a slice besides its content: scalers are numbers from 0 to
/// CodecTraits::max_scaler.
/// @throws CommunicationError
void check_scalers(const Codec& codec, const EncodedSlice& encoded);

}  // namespace terngrad
