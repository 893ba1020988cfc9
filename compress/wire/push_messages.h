// PushMessages: messages between workers and a parameter server in asynchronous training.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "compress/codecs/float_codecs.h"
#include "compress/comm/communicator.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

/// Settings on which both sides must agree.
struct PushProtocol {
  /// @param plan        codecs of the gradient; they must not share scalers
  /// @param parameters  element type of parameters sent to the workers
  /// @param settings    all other settings that decide the result, as text
  /// @param seed        seed of the run's draws, which `settings` includes too; needed for codecs that rotate
  /// @throws InvalidArgument for a plan with shared scalers, or with a codec that votes
  PushProtocol(const Layout& layout, const Layout& state_layout, const CodecPlan& plan, FloatCodec::Width parameters,
               std::uint64_t run_id, std::string_view settings, std::optional<std::uint64_t> seed = {});

  Layout layout;
  Layout state_layout;
  CodecPlan plan;
  FloatCodec::Width parameters;
  std::uint64_t run_id;
  std::optional<std::uint64_t> seed;
  std::uint64_t fingerprint;  // hash of the plan, state layout, parameter type and settings

  MessageContext at(std::uint64_t step) const { return {run_id, fingerprint, step, seed}; }
};

/// Sent by a worker with each gradient.
struct PushMetadata {
  std::uint64_t version = 0;  // version of the parameters used: number of updates applied to them
  double loss = 0;            // mean cross-entropy of the worker's batch
  std::uint64_t num_correct = 0;
  std::uint64_t zeroed_elements = 0;    // elements set to zero by gradient transforms
  std::uint64_t clipped_gradients = 0;  // 0 or 1: clipped by a gradient transform
  std::uint32_t nonfinite_tensors = 0;  // tensors with NaN or infinity, which are sent as zeros
  std::uint32_t first_nonfinite = 0;    // segment of the first of them, if there is any
  bool asks_to_stop = false;  // requests the end of the run, for example after a signal to the worker's process

  friend bool operator==(const PushMetadata&, const PushMetadata&) = default;
};

/// Writes and reads the parcels of one side; docs/wire-format.md specifies their bytes. Messages between the two sides:
///
/// - a worker's pull: a bare kPull;
/// - its answer: a kPull with the worker's next push number, parameters, and state if the net has it;
/// - a worker's push: metadata, gradient, and state if the net has it;
/// - its answer: parameters, or a bare kStop with the number of the run's last step;
/// - the last message of a process: a bare kLeave.
///
/// Buffers are reused. Reading throws CommunicationError that names the error.
class PushMessages {
 public:
  /// @param protocol  must outlive the object
  explicit PushMessages(const PushProtocol& protocol) : protocol_(protocol) {}

  /// A message without content: kPull, kStop or kLeave.
  void add_bare(MessageKind kind, std::uint64_t step, int worker, Parcels& parcels);
  void add_metadata(std::uint64_t push, int worker, const PushMetadata& note, Parcels& parcels);
  /// @param version     number of updates applied to the parameters
  /// @param parameters  [flat elements]
  void add_parameters(std::uint64_t version, int worker, std::span<const float> parameters, Parcels& parcels,
                      Stream& stream);
  /// @param state  [flat elements of the state]
  void add_state(std::uint64_t push, int worker, std::span<const float> state, Parcels& parcels, Stream& stream);

  /// Kind, step and worker of parcel `index`, with checksums checked; for a gradient nothing else is checked.
  /// @throws CommunicationError also if there is no such parcel
  MessageLabel read_bare(const Parcels& parcels, std::size_t index);
  PushMetadata read_metadata(const Parcels& parcels, std::size_t index, std::uint64_t push, int worker);
  /// @param gradient  [flat elements] out: the decoded gradient; padding is left unchanged
  void read_gradient(const Parcels& parcels, std::size_t index, std::uint64_t push, int worker,
                     std::span<float> gradient);
  /// Decodes one tensor of a gradient message. @param out  [elements of the tensor]
  /// @returns the scaler that its codes are multiples of (the largest, if several)
  float read_tensor(std::span<const std::uint8_t> bytes, std::uint64_t push, int worker, int segment,
                    std::span<float> out);
  /// @returns the version of the parameters
  std::uint64_t read_parameters(const Parcels& parcels, std::size_t index, int worker, std::span<float> parameters);
  void read_state(const Parcels& parcels, std::size_t index, std::uint64_t push, int worker, std::span<float> state);

 private:
  void add_tensors(MessageKind kind, std::uint64_t step, int worker, const Layout& layout, FloatCodec::Width width,
                   std::span<const float> values, Parcels& parcels, Stream& stream);
  void read_tensors(std::span<const std::uint8_t> bytes, MessageKind kind, std::uint64_t step, int worker,
                    const Layout& layout, FloatCodec::Width width, std::span<float> values);
  std::span<const std::uint8_t> parcel(const Parcels& parcels, std::size_t index) const;
  /// Parses into message_ and checks its sender.
  void open(std::span<const std::uint8_t> bytes, MessageKind kind, std::uint64_t step, int worker,
            const Layout& layout);
  /// @throws CommunicationError unless the message is from this worker
  void require_worker(int worker) const;
  void open_gradient(std::span<const std::uint8_t> bytes, std::uint64_t push, int worker);

  const PushProtocol& protocol_;
  MessageWriter writer_;
  Message message_;
};

}  // namespace terngrad
