#include "compress/wire/push_messages.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "compress/plan/combinations.h"
#include "compress/wire/gradient_message.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/bfloat16.h"

namespace terngrad {
namespace {

/// The payload of a kPush message.
struct WireNote {
  std::uint64_t version;
  std::uint64_t loss;  // bits of a float64
  std::uint64_t num_correct;
  std::uint64_t zeroed_elements;
  std::uint64_t clipped_gradients;
  std::uint32_t nonfinite_tensors;
  std::uint32_t first_nonfinite;
  std::uint64_t flags;
};
static_assert(sizeof(WireNote) == 56);

constexpr std::uint64_t kAsksToStop = 1;

std::uint64_t fingerprint_of(const PushProtocol& protocol, std::string_view settings) {
  Fingerprint hash;
  hash.add(protocol.plan.fingerprint()).add(protocol.state_layout.fingerprint());
  hash.add(protocol.parameters == FloatCodec::Width::kFloat32 ? "fp32" : "bf16").add(settings);
  return hash.value();
}

std::span<const float> tensor_of(const Segment& segment, std::span<const float> flat) {
  return flat.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements));
}

std::span<float> tensor_of(const Segment& segment, std::span<float> flat) {
  return flat.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements));
}

void require_flat(const Layout& layout, std::size_t size) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(size) == layout.flat_elements(), "[push] the layout has ",
                   layout.flat_elements(), " elements, the buffer ", size);
}

}  // namespace

PushProtocol::PushProtocol(const Layout& of_parameters, const Layout& of_state, const CodecPlan& of_gradient,
                           FloatCodec::Width width, std::uint64_t run, std::string_view settings,
                           std::optional<std::uint64_t> of_draws)
    : layout(of_parameters),
      state_layout(of_state),
      plan(of_gradient),
      parameters(width),
      run_id(run),
      seed(of_draws),
      fingerprint(fingerprint_of(*this, settings)) {
  require_combination(plan, {.is_pushed = true});
}

void PushMessages::add_bare(MessageKind kind, std::uint64_t step, int worker, Parcels& parcels) {
  writer_.begin(kind, protocol_.at(step), worker, 0, max_message_bytes(0, 0, 0));
  parcels.append(writer_.finish());
}

void PushMessages::add_metadata(std::uint64_t push, int worker, const PushMetadata& note, Parcels& parcels) {
  const WireNote wire{.version = note.version,
                      .loss = std::bit_cast<std::uint64_t>(note.loss),
                      .num_correct = note.num_correct,
                      .zeroed_elements = note.zeroed_elements,
                      .clipped_gradients = note.clipped_gradients,
                      .nonfinite_tensors = note.nonfinite_tensors,
                      .first_nonfinite = note.first_nonfinite,
                      .flags = note.asks_to_stop ? kAsksToStop : 0};
  writer_.begin(MessageKind::kPush, protocol_.at(push), worker, 0, max_message_bytes(0, 0, sizeof(wire)));
  writer_.add_bytes({reinterpret_cast<const std::uint8_t*>(&wire), sizeof(wire)});
  parcels.append(writer_.finish());
}

void PushMessages::add_parameters(std::uint64_t version, int worker, std::span<const float> parameters,
                                  Parcels& parcels, Stream& stream) {
  add_tensors(MessageKind::kParameters, version, worker, protocol_.layout, protocol_.parameters, parameters, parcels,
              stream);
}

void PushMessages::add_state(std::uint64_t push, int worker, std::span<const float> state, Parcels& parcels,
                             Stream& stream) {
  add_tensors(MessageKind::kState, push, worker, protocol_.state_layout, FloatCodec::Width::kFloat32, state, parcels,
              stream);
}

void PushMessages::add_tensors(MessageKind kind, std::uint64_t step, int worker, const Layout& layout,
                               FloatCodec::Width width, std::span<const float> values, Parcels& parcels,
                               Stream& stream) {
  require_flat(layout, values.size());
  const FloatCodec codec(width, 1);
  const auto num_segments = static_cast<std::size_t>(layout.num_segments());
  std::int64_t payload_bytes = 0;
  for (const Slice& slice : whole_segments(layout)) {
    payload_bytes += codec.max_payload_bytes(slice, PayloadForm::kNatural);
  }
  writer_.begin(kind, protocol_.at(step), worker, num_segments, max_message_bytes(num_segments, 0, payload_bytes));
  for (const Slice& slice : whole_segments(layout)) {
    const std::int64_t bytes = codec.max_payload_bytes(slice, PayloadForm::kNatural);
    std::uint8_t* const codes = writer_.add(slice, codec.wire_id(), 0, {}, bytes);
    const std::span<const float> tensor = tensor_of(layout.segment(slice.segment), values);
    if (tensor.empty()) continue;
    if (width == FloatCodec::Width::kFloat32) {
      std::memcpy(codes, tensor.data(), tensor.size_bytes());
      continue;
    }
    encode_bfloat16(tensor, {reinterpret_cast<std::uint16_t*>(codes), tensor.size()}, stream);
    std::memset(codes + 2 * tensor.size(), 0, static_cast<std::size_t>(bytes) - 2 * tensor.size());
  }
  parcels.append(writer_.finish());
}

std::span<const std::uint8_t> PushMessages::parcel(const Parcels& parcels, std::size_t index) const {
  if (index >= parcels.count()) {
    TERNGRAD_THROW(CommunicationError, "[push] a message of ", parcels.count(), " parts came, expected more than ",
                   index);
  }
  return parcels.parcel(index);
}

void PushMessages::open(std::span<const std::uint8_t> bytes, MessageKind kind, std::uint64_t step, int worker,
                        const Layout& layout) {
  read_message(bytes, kind, protocol_.at(step), layout, message_);
  require_worker(worker);
}

void PushMessages::require_worker(int worker) const {
  if (message_.worker == worker) return;
  TERNGRAD_THROW(CommunicationError, "[push] what was expected of worker ", worker, " says that it is worker ",
                 message_.worker, "'s");
}

MessageLabel PushMessages::read_bare(const Parcels& parcels, std::size_t index) {
  const std::span<const std::uint8_t> bytes = parcel(parcels, index);
  const MessageLabel label = read_label(bytes);
  read_message(bytes, label.kind, protocol_.at(label.step), protocol_.layout, message_);
  return label;
}

PushMetadata PushMessages::read_metadata(const Parcels& parcels, std::size_t index, std::uint64_t push, int worker) {
  open(parcel(parcels, index), MessageKind::kPush, push, worker, protocol_.layout);
  WireNote wire{};
  if (!message_.records.empty() || message_.payload.size() != sizeof(wire)) {
    TERNGRAD_THROW(CommunicationError, "[push] the note of worker ", worker, " has ", message_.payload.size(),
                   " bytes and ", message_.records.size(), " slices, expected ", sizeof(wire), " and none");
  }
  std::memcpy(&wire, message_.payload.data(), sizeof(wire));
  const auto num_segments = static_cast<std::uint32_t>(protocol_.layout.num_segments());
  if ((wire.flags & ~kAsksToStop) != 0 || wire.nonfinite_tensors > num_segments ||
      (wire.nonfinite_tensors > 0 ? wire.first_nonfinite >= num_segments : wire.first_nonfinite != 0)) {
    TERNGRAD_THROW(CommunicationError, "[push] the note of worker ", worker, " has flags ", wire.flags,
                   " and tells of ", wire.nonfinite_tensors, " tensors from ", wire.first_nonfinite, " on, of ",
                   num_segments);
  }
  return {.version = wire.version,
          .loss = std::bit_cast<double>(wire.loss),
          .num_correct = wire.num_correct,
          .zeroed_elements = wire.zeroed_elements,
          .clipped_gradients = wire.clipped_gradients,
          .nonfinite_tensors = wire.nonfinite_tensors,
          .first_nonfinite = wire.first_nonfinite,
          .asks_to_stop = (wire.flags & kAsksToStop) != 0};
}

void PushMessages::open_gradient(std::span<const std::uint8_t> bytes, std::uint64_t push, int worker) {
  read_gradient_message(bytes, protocol_.layout, protocol_.plan, protocol_.at(push), message_);
  require_worker(worker);
}

void PushMessages::read_gradient(const Parcels& parcels, std::size_t index, std::uint64_t push, int worker,
                                 std::span<float> gradient) {
  require_flat(protocol_.layout, gradient.size());
  open_gradient(parcel(parcels, index), push, worker);
  decode_gradient(message_, protocol_.plan, TensorTable(protocol_.layout, gradient.data()));
}

float PushMessages::read_tensor(std::span<const std::uint8_t> bytes, std::uint64_t push, int worker, int segment,
                                std::span<float> out) {
  open_gradient(bytes, push, worker);
  const EncodedSlice& encoded = message_.records.at(static_cast<std::size_t>(segment)).encoded;
  if (!out.empty()) protocol_.plan.codec_of(segment).decode(encoded, out);
  return encoded.scalers.empty() ? 0.0f : std::ranges::max(encoded.scalers);
}

std::uint64_t PushMessages::read_parameters(const Parcels& parcels, std::size_t index, int worker,
                                            std::span<float> parameters) {
  const std::span<const std::uint8_t> bytes = parcel(parcels, index);
  const std::uint64_t version = read_label(bytes).step;
  read_tensors(bytes, MessageKind::kParameters, version, worker, protocol_.layout, protocol_.parameters, parameters);
  return version;
}

void PushMessages::read_state(const Parcels& parcels, std::size_t index, std::uint64_t push, int worker,
                              std::span<float> state) {
  read_tensors(parcel(parcels, index), MessageKind::kState, push, worker, protocol_.state_layout,
               FloatCodec::Width::kFloat32, state);
}

void PushMessages::read_tensors(std::span<const std::uint8_t> bytes, MessageKind kind, std::uint64_t step, int worker,
                                const Layout& layout, FloatCodec::Width width, std::span<float> values) {
  require_flat(layout, values.size());
  open(bytes, kind, step, worker, layout);
  const FloatCodec codec(width, 1);
  bool complete = static_cast<int>(message_.records.size()) == layout.num_segments();
  for (int segment = 0; complete && segment < layout.num_segments(); ++segment) {
    const Message::Record& record = message_.records[static_cast<std::size_t>(segment)];
    complete = record.encoded.slice == Slice{segment, 0, layout.segment(segment).num_elements} &&
               record.codec == codec.wire_id() && record.encoded.scalers.empty();
    if (complete) codec.check(record.encoded);
  }
  if (!complete) {
    TERNGRAD_THROW(CommunicationError, "[push] what came for worker ", worker, " is not every tensor in codec ",
                   codec.name());
  }
  for (const Message::Record& record : message_.records) {
    const std::span<float> tensor = tensor_of(layout.segment(record.encoded.slice.segment), values);
    if (!tensor.empty()) codec.decode(record.encoded, tensor);
  }
}

}  // namespace terngrad
