// PushMessages: what workers and a parameter server tell each other in asynchronous training.
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

/// What both sides must agree on.
struct PushProtocol {
  /// @param plan        of the gradient: codecs whose scalers are not shared
  /// @param parameters  how parameters travel to the workers
  /// @param settings    what else decides the result, as text
  /// @param seed        of the run's draws, which the settings say too; needed for codecs that rotate
  /// @throws InvalidArgument for a plan with shared scalers
  PushProtocol(const Layout& layout, const Layout& state_layout, const CodecPlan& plan, FloatCodec::Width parameters,
               std::uint64_t run_id, std::string_view settings, std::optional<std::uint64_t> seed = {});

  Layout layout;
  Layout state_layout;
  CodecPlan plan;
  FloatCodec::Width parameters;
  std::uint64_t run_id;
  std::optional<std::uint64_t> seed;
  std::uint64_t fingerprint;  // of all the others

  MessageContext at(std::uint64_t step) const { return {run_id, fingerprint, step, seed}; }
};

/// What a worker tells with a gradient.
struct PushMetadata {
  std::uint64_t version = 0;  // of the parameters that it was computed with: updates that they had seen
  double loss = 0;            // mean cross-entropy of the worker's slice
  std::uint64_t num_correct = 0;
  std::uint64_t zeroed_elements = 0;    // by transforms
  std::uint64_t clipped_gradients = 0;  // by transforms: 0 or 1
  std::uint32_t nonfinite_tensors = 0;  // that hold NaN or infinity, and travel as zeros
  std::uint32_t first_nonfinite = 0;    // segment of the first of them, if there are any
  bool asks_to_stop = false;            // the run, for example by a signal to the worker's process

  friend bool operator==(const PushMetadata&, const PushMetadata&) = default;
};

/// Writes and reads the parcels of one side; docs/wire-format.md specifies their bytes. Messages between the two are
///
/// - a worker's pull: a bare kPull;
/// - its answer: a kPull that says with which push the worker continues, parameters, and state if the net has it;
/// - a worker's push: note, gradient, and state if the net has it;
/// - its answer: parameters, or a bare kStop with the number of the run's last step;
/// - the last of a process: a bare kLeave.
///
/// Buffers are kept from message to message. What is read throws CommunicationError naming what is wrong.
class PushMessages {
 public:
  /// @param protocol  outlives the object
  explicit PushMessages(const PushProtocol& protocol) : protocol_(protocol) {}

  /// A message without content: kPull, kStop or kLeave.
  void add_bare(MessageKind kind, std::uint64_t step, int worker, Parcels& parcels);
  void add_metadata(std::uint64_t push, int worker, const PushMetadata& note, Parcels& parcels);
  /// @param version     updates that the parameters have seen
  /// @param parameters  [flat elements]
  void add_parameters(std::uint64_t version, int worker, std::span<const float> parameters, Parcels& parcels,
                      Stream& stream);
  /// @param state  [flat elements of the state], with any
  void add_state(std::uint64_t push, int worker, std::span<const float> state, Parcels& parcels, Stream& stream);

  /// What parcel `index` says it is, checksums checked; gradients say no more than that.
  /// @throws CommunicationError also if there is no such parcel
  MessageLabel read_bare(const Parcels& parcels, std::size_t index);
  PushMetadata read_metadata(const Parcels& parcels, std::size_t index, std::uint64_t push, int worker);
  /// @param gradient  [flat elements] out: what the worker sent, decoded; padding untouched
  void read_gradient(const Parcels& parcels, std::size_t index, std::uint64_t push, int worker,
                     std::span<float> gradient);
  /// The tensors of a gradient message one by one. @param out  [elements of the tensor]
  /// @returns the scaler that its codes are multiples of (the largest, if several)
  float read_tensor(std::span<const std::uint8_t> bytes, std::uint64_t push, int worker, int segment,
                    std::span<float> out);
  /// @returns the version
  std::uint64_t read_parameters(const Parcels& parcels, std::size_t index, int worker, std::span<float> parameters);
  void read_state(const Parcels& parcels, std::size_t index, std::uint64_t push, int worker, std::span<float> state);

 private:
  void add_tensors(MessageKind kind, std::uint64_t step, int worker, const Layout& layout, FloatCodec::Width width,
                   std::span<const float> values, Parcels& parcels, Stream& stream);
  void read_tensors(std::span<const std::uint8_t> bytes, MessageKind kind, std::uint64_t step, int worker,
                    const Layout& layout, FloatCodec::Width width, std::span<float> values);
  std::span<const std::uint8_t> parcel(const Parcels& parcels, std::size_t index) const;
  /// Reads into message_ and checks whose it is.
  void open(std::span<const std::uint8_t> bytes, MessageKind kind, std::uint64_t step, int worker,
            const Layout& layout);
  /// That the message is of this worker.
  void require_worker(int worker) const;
  void open_gradient(std::span<const std::uint8_t> bytes, std::uint64_t push, int worker);

  const PushProtocol& protocol_;
  MessageWriter writer_;
  Message message_;
};

}  // namespace terngrad
