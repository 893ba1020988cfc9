#include "compress/wire/push_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/wire/worker_encoder.h"
#include "kernels/runtime/errors.h"
#include "support/bits.h"
#include "support/gradients.h"
#include "support/reference.h"

namespace terngrad::push_messages_test {
namespace {

using reference::Bytes;
using ::testing::AllOf;
using testing::bits_of;
using ::testing::HasSubstr;

constexpr std::uint64_t kRun = 0x1122334455667788;

/// Layout of the example in docs/wire-format.md.
Layout small_layout() {
  Layout layout;
  layout.add("conv/weights", {3, 6});
  layout.add("logits/biases", {3}, /*is_logits=*/true);
  return layout;
}

Layout small_state() {
  Layout layout;
  layout.add("norm/moving_mean", {3});
  return layout;
}

CodecPlan small_plan(ScalerSharing sharing = ScalerSharing::kNone, TernaryLevels levels = TernaryLevels::kSymmetric) {
  CodecPlanOptions options;
  options.context.num_workers = 2;
  options.codec = ternary_spec({.sharing = sharing, .levels = levels});
  return {small_layout(), options};
}

PushProtocol small_protocol(FloatCodec::Width width = FloatCodec::Width::kFloat32, std::uint64_t run = kRun,
                            const char* settings = "scale=0.5") {
  return {small_layout(), small_state(), small_plan(), width, run, settings};
}

PushMetadata small_note() {
  return {.version = 40,
          .loss = 2.5,
          .num_correct = 7,
          .zeroed_elements = 5,
          .clipped_gradients = 1,
          .nonfinite_tensors = 1,
          .first_nonfinite = 1,
          .asks_to_stop = true};
}

Bytes bytes_of(const Parcels& parcels, std::size_t index) {
  const auto parcel = parcels.parcel(index);
  return {parcel.begin(), parcel.end()};
}

Parcels parcels_of(const Bytes& bytes) {
  Parcels parcels;
  parcels.append(bytes);
  return parcels;
}

/// Values 1, 2, 3, ... times `step`; padding is 0.
Buffer<float> counting(const Layout& layout, float step) {
  Buffer<float> values = zeros<float>(layout.flat_elements());
  float next = step;
  for (const Segment& segment : layout.segments()) {
    for (std::int64_t i = 0; i < segment.num_elements; ++i, next += step) {
      values.data()[segment.offset + i] = next;
    }
  }
  return values;
}

std::string refusal(const std::function<void()>& read) {
  try {
    read();
  } catch (const CommunicationError& error) {
    return error.what();
  }
  return "accepted";
}

void store32(Bytes& bytes, std::size_t at, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<std::uint8_t>(value >> (8 * i));
}

/// Recomputes the checksums of a message without records.
void fix_checksums(Bytes& bytes) {
  store32(bytes, 56, reference::crc32c(std::span<const std::uint8_t>(bytes).subspan(64)));
  store32(bytes, 60, reference::crc32c(std::span<const std::uint8_t>(bytes).first(60)));
}

TEST(PushMessages, NotesHaveTheBytesOfTheDocument) {
  const PushProtocol protocol = small_protocol();
  PushMessages messages(protocol);
  Parcels parcels;
  messages.add_metadata(3, 1, small_note(), parcels);
  const Bytes bytes = bytes_of(parcels, 0);
  Bytes golden = {
      // clang-format off
      0x54, 0x47, 0x52, 0x44, 0x01, 0x00, 0x05, 0x00,  // magic, version 1, kind 5
      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,  // run id
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // fingerprint (filled in below)
      0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // push 3
      0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // worker 1, no records
      0x38, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // payload length: 56
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // no elements
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // checksums (filled in below)
      0x28, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  //  0 version 40
      0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x40,  //  8 loss 2.5
      0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // 16 7 correct
      0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // 24 5 zeroed
      0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // 32 clipped
      0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,  // 40 one non-finite tensor, 44 segment 1
      0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // 48 asks to stop
      // clang-format on
  };
  for (std::size_t i = 0; i < 8; ++i) golden[16 + i] = static_cast<std::uint8_t>(protocol.fingerprint >> (8 * i));
  fix_checksums(golden);
  EXPECT_EQ(bytes, golden);
  EXPECT_EQ(messages.read_metadata(parcels, 0, 3, 1), small_note());
}

TEST(PushMessages, BareMessagesAreHeaders) {
  const PushProtocol protocol = small_protocol();
  PushMessages messages(protocol);
  for (const MessageKind kind : {MessageKind::kPull, MessageKind::kStop, MessageKind::kLeave}) {
    Parcels parcels;
    messages.add_bare(kind, 9, 2, parcels);
    EXPECT_EQ(parcels.parcel(0).size(), kWireHeaderBytes);
    EXPECT_EQ(parcels.parcel(0)[6], static_cast<std::uint8_t>(kind));
    const MessageLabel label = messages.read_bare(parcels, 0);
    EXPECT_EQ(label.kind, kind);
    EXPECT_EQ(label.step, 9u);
    EXPECT_EQ(label.worker, 2u);
  }
  EXPECT_EQ(static_cast<int>(MessageKind::kPull), 4);
  EXPECT_EQ(static_cast<int>(MessageKind::kStop), 8);
  EXPECT_EQ(static_cast<int>(MessageKind::kLeave), 9);
}

TEST(PushMessages, ParametersAndStateComeBack) {
  const Layout layout = small_layout();
  Stream stream(Device::cpu(), 1);
  for (const auto width : {FloatCodec::Width::kFloat32, FloatCodec::Width::kBfloat16}) {
    const PushProtocol protocol = small_protocol(width);
    PushMessages messages(protocol);
    const Buffer<float> values = counting(layout, 0.5f);  // exact in bfloat16
    const Buffer<float> state = counting(small_state(), 0.1f);
    Parcels parcels;
    messages.add_parameters(77, 1, values.span(), parcels, stream);
    messages.add_state(5, 1, state.span(), parcels, stream);
    // 64 bytes of header, 48 per record; elements are padded to 4 bytes and slices to 8.
    EXPECT_EQ(parcels.parcel(0).size(), width == FloatCodec::Width::kFloat32 ? 64u + 96 + 72 + 12 : 64u + 96 + 40 + 8);
    EXPECT_EQ(parcels.parcel(0)[6], 7);
    EXPECT_EQ(parcels.parcel(1)[6], 6);
    Buffer<float> read = zeros<float>(values.num_elements());
    EXPECT_EQ(messages.read_parameters(parcels, 0, 1, read.span()), 77u);
    EXPECT_EQ(bits_of(read.span()), bits_of(values.span()));
    Buffer<float> read_state = zeros<float>(state.num_elements());
    messages.read_state(parcels, 1, 5, 1, read_state.span());
    EXPECT_EQ(bits_of(read_state.span()), bits_of(state.span()));
  }
}

TEST(PushMessages, GradientsComeBackDecoded) {
  const PushProtocol protocol = small_protocol();
  PushMessages messages(protocol);
  const Layout layout = small_layout();
  Buffer<float> gradient = zeros<float>(layout.flat_elements());
  for (int i = 0; i < 18; ++i) gradient.data()[layout.segment(0).offset + i] = (i % 2 == 0 ? 4.0f : -4.0f);
  for (int i = 0; i < 3; ++i) gradient.data()[layout.segment(1).offset + i] = 0.25f * static_cast<float>(i + 1);
  WorkerEncoder encoder(protocol.layout, protocol.plan, 1, 2, 1);
  const TensorTable table(layout, gradient.data());
  Stream stream(Device::cpu(), 1);
  encoder.measure(table, 3, stream);
  Parcels parcels;
  parcels.append(encoder.gradient_message(table, protocol.at(3), stream));
  Buffer<float> read = zeros<float>(gradient.num_elements());
  messages.read_gradient(parcels, 0, 3, 1, read.span());
  EXPECT_EQ(bits_of(read.span()), bits_of(gradient.span()));  // all are +-max
  std::vector<float> tensor(18);
  EXPECT_EQ(messages.read_tensor(parcels.parcel(0), 3, 1, 0, tensor), 4.0f);
  EXPECT_EQ(tensor[1], -4.0f);
  EXPECT_THAT(refusal([&] { messages.read_gradient(parcels, 0, 4, 1, read.span()); }), HasSubstr("step is 3"));
  EXPECT_THAT(refusal([&] { messages.read_gradient(parcels, 0, 3, 0, read.span()); }),
              AllOf(HasSubstr("worker 0"), HasSubstr("worker 1")));
}

TEST(PushMessages, GradientsThatAreRotatedAreTurnedBackWithTheSeedOfTheRun) {
  Layout layout;
  layout.add("before", {100});
  layout.add("w", {9000});
  CodecPlanOptions options;
  options.context.num_workers = 2;
  options.codec = "qsgd:bits=8,rotate=1024";
  const CodecPlan plan(layout, options);
  const PushProtocol protocol(layout, {}, plan, FloatCodec::Width::kFloat32, kRun, "", 11);
  const testing::Tensors tensors = testing::gaussian_tensors(layout, 5);
  WorkerEncoder encoder(protocol.layout, protocol.plan, 1, 2, 11);
  Stream stream(Device::cpu(), 1);
  encoder.measure(tensors.table, 3, stream);
  Parcels parcels;
  parcels.append(encoder.gradient_message(tensors.table, protocol.at(3), stream));
  Buffer<float> read = zeros<float>(layout.flat_elements());
  PushMessages(protocol).read_gradient(parcels, 0, 3, 1, read.span());
  std::vector<float> tensor(9000);
  PushMessages(protocol).read_tensor(parcels.parcel(0), 3, 1, 1, tensor);
  for (std::size_t i = 0; i < tensor.size(); ++i) {
    ASSERT_NEAR(tensor[i], tensors.values[1][i], 0.15) << i;
    ASSERT_EQ(read.data()[static_cast<std::size_t>(layout.segment(1).offset) + i], tensor[i]) << i;
  }
  const PushProtocol without(layout, {}, plan, FloatCodec::Width::kFloat32, kRun, "");
  EXPECT_THROW(PushMessages(without).read_gradient(parcels, 0, 3, 1, read.span()), InvalidArgument);
}

TEST(PushMessages, WhatIsForeignOrDamagedIsRefused) {
  const PushProtocol protocol = small_protocol();
  PushMessages messages(protocol);
  Parcels parcels;
  messages.add_metadata(3, 1, small_note(), parcels);
  const Bytes good = bytes_of(parcels, 0);
  EXPECT_THAT(refusal([&] { messages.read_metadata(parcels, 1, 3, 1); }), HasSubstr("1 parts"));
  EXPECT_THAT(refusal([&] { messages.read_metadata(parcels, 0, 2, 1); }), HasSubstr("step is 3, expected 2"));
  EXPECT_THAT(refusal([&] { messages.read_metadata(parcels, 0, 3, 0); }), HasSubstr("worker 1's"));
  for (std::size_t at = 0; at < good.size(); ++at) {
    Bytes bad = good;
    bad[at] ^= 0x10;
    EXPECT_NE(refusal([&] { messages.read_metadata(parcels_of(bad), 0, 3, 1); }), "accepted") << at;
    EXPECT_NE(refusal([&] { messages.read_bare(parcels_of(bad), 0); }), "accepted") << at;
  }
  for (std::size_t length = 0; length < good.size(); ++length) {
    const Bytes bad(good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_NE(refusal([&] { messages.read_metadata(parcels_of(bad), 0, 3, 1); }), "accepted") << length;
  }
  const PushProtocol other_run = small_protocol(FloatCodec::Width::kFloat32, kRun + 1);
  EXPECT_THAT(refusal([&] { PushMessages(other_run).read_metadata(parcels, 0, 3, 1); }), HasSubstr("run id"));
  for (const PushProtocol& other :
       {small_protocol(FloatCodec::Width::kBfloat16), small_protocol(FloatCodec::Width::kFloat32, kRun, "scale=1")}) {
    EXPECT_THAT(refusal([&] { PushMessages(other).read_metadata(parcels, 0, 3, 1); }), HasSubstr("fingerprint"));
  }
}

TEST(PushMessages, NotesThatContradictThemselvesAreRefused) {
  const PushProtocol protocol = small_protocol();
  PushMessages messages(protocol);
  Parcels parcels;
  messages.add_metadata(3, 1, small_note(), parcels);
  const Bytes good = bytes_of(parcels, 0);
  // Payload offsets: number of tensors, first tensor, flags.
  for (const auto& [at, value] : {std::pair<std::size_t, std::uint8_t>{40, 3}, {44, 2}, {40, 0}, {48, 2}}) {
    Bytes bad = good;
    bad[64 + at] = value;
    fix_checksums(bad);
    EXPECT_THAT(refusal([&] { messages.read_metadata(parcels_of(bad), 0, 3, 1); }), HasSubstr("tells of")) << at;
  }
  Bytes longer = good;
  longer.resize(good.size() + 8);
  longer[40] += 8;
  fix_checksums(longer);
  EXPECT_THAT(refusal([&] { messages.read_metadata(parcels_of(longer), 0, 3, 1); }), HasSubstr("64 bytes"));
}

TEST(PushMessages, TensorsOfOtherFormsAreRefused) {
  Stream stream(Device::cpu(), 1);
  const PushProtocol protocol = small_protocol();
  PushMessages messages(protocol);
  const Buffer<float> values = counting(small_layout(), 1);
  Buffer<float> read = zeros<float>(values.num_elements());
  Parcels parcels;
  messages.add_parameters(0, 1, values.span(), parcels, stream);
  Bytes bad = bytes_of(parcels, 0);
  bad[64 + 4] = 2;  // bf16
  store32(bad, 60, [&] {
    Bytes head(bad.begin(), bad.begin() + 60);
    head.insert(head.end(), bad.begin() + 64, bad.begin() + 64 + 96);
    return reference::crc32c(head);
  }());
  EXPECT_THAT(refusal([&] { messages.read_parameters(parcels_of(bad), 0, 1, read.span()); }),
              HasSubstr("not every tensor in codec fp32"));
  Buffer<float> state = zeros<float>(small_state().flat_elements());
  EXPECT_THAT(refusal([&] { messages.read_state(parcels, 0, 0, 1, state.span()); }),
              HasSubstr("kind is 7, expected 6"));
}

TEST(PushMessages, GradientsWithScalersThatNoWorkerSendsAreRefused) {
  const PushProtocol protocol = small_protocol();
  PushMessages messages(protocol);
  Buffer<float> read = zeros<float>(protocol.layout.flat_elements());
  const auto said_of = [&](float scaler) {
    MessageWriter writer;
    writer.begin(MessageKind::kGradient, protocol.at(3), 1, 2, max_message_bytes(2, 2, 64));
    for (int segment = 0; segment < 2; ++segment) {
      const Slice whole{segment, 0, protocol.layout.segment(segment).num_elements};
      const Codec& codec = protocol.plan.codec_of(segment);
      const std::int64_t bytes = codec.max_payload_bytes(whole, PayloadForm::kNatural);
      const std::array<float, 1> scalers = {segment == 0 ? scaler : 0.0f};
      std::uint8_t* const codes =
          writer.add(whole, codec.wire_id(), codec.record_format(PayloadForm::kNatural), scalers, bytes);
      std::fill_n(codes, bytes, std::uint8_t{0});
    }
    Parcels parcels;
    parcels.append(writer.finish());
    return refusal([&] { messages.read_gradient(parcels, 0, 3, 1, read.span()); });
  };
  EXPECT_EQ(said_of(1.0f), "accepted");
  EXPECT_THAT(said_of(-1.0f), HasSubstr("scaler -1 of segment 0"));
  EXPECT_THAT(said_of(std::numeric_limits<float>::quiet_NaN()), HasSubstr("of segment 0"));
  EXPECT_THAT(said_of(3e38f), HasSubstr("of segment 0"));
}

TEST(PushMessages, SharedScalersAreRefused) {
  for (const ScalerSharing sharing : {ScalerSharing::kMax, ScalerSharing::kMean}) {
    EXPECT_THROW(PushProtocol(small_layout(), {}, small_plan(sharing), FloatCodec::Width::kFloat32, kRun, ""),
                 InvalidArgument);
  }
  // Also with asymmetric levels, although their codes are never summed.
  const TernaryLevels levels = TernaryLevels::kAsymmetric;
  EXPECT_THROW(
      PushProtocol(small_layout(), {}, small_plan(ScalerSharing::kMax, levels), FloatCodec::Width::kFloat32, kRun, ""),
      InvalidArgument);
  EXPECT_NO_THROW(PushProtocol(small_layout(), {}, small_plan(ScalerSharing::kNone, levels),
                               FloatCodec::Width::kFloat32, kRun, ""));
}

}  // namespace
}  // namespace terngrad::push_messages_test
