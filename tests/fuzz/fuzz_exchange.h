// Exchanges between two workers, or two processes with eight workers, in which one message is tampered with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/codecs/ternary_spec.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/payload_rows.h"
#include "kernels/tensor/transform.h"
#include "tests/fuzz/fuzz_message.h"
#include "tests/fuzz/repair_message.h"

namespace terngrad::fuzz {

/// Exchange that an input byte selects.
struct ExchangeChoice {
  TernaryFormat format;         // bits 0, 1: t2, t5, tmask, trans
  bool scatters;                // bit 2: scatter_reduce, whose means return as sums of codes
  bool own_scalers;             // bit 3: no shared scaler; the mean returns as bf16
  bool blocks;                  // bit 4: a scaler per 4096 elements
  std::size_t tampered_call;    // bits 5, 6: index of the tampered collective (scalers, gradients, means);
                                // 3: the floats that processes add for their workers
  const char* codec_of_biases;  // bit 7: fp32 or bf16
};

inline ExchangeChoice exchange_choice(std::uint8_t byte) {
  constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                        TernaryFormat::kTrans};
  return {.format = kFormats[byte & 3u],
          .scatters = (byte & 4u) != 0,
          .own_scalers = (byte & 8u) != 0,
          .blocks = (byte & 16u) != 0,
          .tampered_call = (byte >> 5u) & 3u,
          .codec_of_biases = (byte & 128u) != 0 ? "fp32" : "bf16"};
}

using Tamper = std::function<std::vector<std::uint8_t>(std::span<const std::uint8_t> message)>;

/// A group of one process that returns all messages unchanged, except for the last message of one collective.
class TamperingCommunicator final : public Communicator {
 public:
  TamperingCommunicator(std::size_t tampered_call, Tamper tamper)
      : tampered_call_(tampered_call), tamper_(std::move(tamper)) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_gather(Parcels& mine, Parcels& all) override { deliver(mine, all); }
  void all_to_all(std::span<Parcels> outgoing, Parcels& incoming) override { deliver(outgoing[0], incoming); }
  void all_reduce_sum(std::span<std::uint64_t>) override {}
  void all_reduce_max(std::span<std::uint32_t>) override {}
  void broadcast(std::span<std::uint8_t>, int) override {}
  void barrier() override {}

 private:
  void deliver(const Parcels& from, Parcels& to) {
    const bool is_tampered = num_calls_++ == tampered_call_;
    to.clear();
    for (std::size_t i = 0; i < from.count(); ++i) {
      const std::span<const std::uint8_t> message = from.parcel(i);
      if (is_tampered && i + 1 == from.count()) {
        to.append(tamper_(message));
      } else {
        to.append(message);
      }
    }
  }

  std::size_t tampered_call_;
  Tamper tamper_;
  std::size_t num_calls_ = 0;
};

/// Tampered version of a message. @param tampering  0: the input bytes; 1: the input bytes with repaired checksums; 2:
/// the message with scalers and codes XORed with the input, and repaired checksums
inline std::vector<std::uint8_t> tampered_message(std::span<const std::uint8_t> message,
                                                  std::span<const std::uint8_t> input, int tampering) {
  std::vector<std::uint8_t> bytes(input.begin(), input.end());
  if (tampering == 2) {
    bytes.assign(message.begin(), message.end());
    const std::span<std::uint8_t> payload = std::span(bytes).subspan(payload_at(message));
    for (std::size_t i = 0; i < std::min(payload.size(), input.size()); ++i) payload[i] ^= input[i];
  }
  if (tampering != 0) repair_checksums(bytes);
  return bytes;
}

/// Exchanges two equal gradients of message_layout(). @param mean  out: [layout.flat_elements()]
/// @throws CommunicationError if the tampered message is refused
inline ExchangeReport tampered_exchange(CompressedAllReduceOptions options, std::size_t tampered_call,
                                        const Tamper& tamper, std::vector<float>& mean) {
  const Layout& layout = message_layout();
  std::vector<float> gradient(static_cast<std::size_t>(layout.flat_elements()));
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 7) - 3.0f;
  mean.assign(gradient.size(), 0.0f);
  options.on_nonfinite = OnNonfinite::kZero;
  options.run_id = kMessageContext.run_id;
  auto communicator = std::make_shared<TamperingCommunicator>(tampered_call, tamper);
  const auto no_change = [](int, std::span<std::uint8_t>) {};  // makes the exchange read its own messages, too
  CompressedAllReduce exchange(layout, {make_worker_group(2, std::move(communicator)), no_change}, options);
  const std::vector<TensorTable> gradients(2, TensorTable(layout, gradient.data()));
  return exchange.exchange(gradients, TensorTable(layout, mean.data()), kMessageContext.step);
}

/// Same with ternary codes.
inline ExchangeReport tampered_exchange(const ExchangeChoice& choice, const Tamper& tamper, std::vector<float>& mean) {
  CompressedAllReduceOptions options;
  options.codecs.rules = {parse_codec_rule(std::string("b=") + choice.codec_of_biases)};
  TernaryOptions ternary;
  ternary.format = choice.format;
  ternary.sharing = choice.own_scalers ? ScalerSharing::kNone : ScalerSharing::kMax;
  ternary.scope = choice.blocks ? ScalerScope::kBlock : ScalerScope::kLayer;
  ternary.block_elements = 4096;
  options.codecs.codec = ternary_spec(ternary);
  options.algorithm = choice.scatters ? ExchangeAlgorithm::kScatterReduce : ExchangeAlgorithm::kAllGather;
  options.downlink_codec = choice.own_scalers ? DownlinkCodec::kBfloat16 : DownlinkCodec::kSums;
  return tampered_exchange(options, choice.tampered_call, tamper, mean);
}

/// One of two processes whose workers have equal gradients.
class SummingRank {
 public:
  SummingRank(const Layout& layout, const CodecPlan& plan, const std::vector<WorkerRange>& ranks, int rank,
              std::vector<float>& gradient)
      : layout_(layout),
        transport_(layout, plan, ranks, rank),
        rows_(plan, ranks[static_cast<std::size_t>(rank)], {whole_segments(layout)}, PayloadForm::kNatural) {
    Stream stream(Device::cpu(), 1);
    const WorkerRange& workers = ranks[static_cast<std::size_t>(rank)];
    transport_.expect_parts(rows_, 0, 1);
    coders_ = make_coders(plan, {.layout = layout, .workers = workers},
                          [this](std::size_t) -> PayloadRows& { return rows_; });
    const std::vector<TensorTable> gradients(static_cast<std::size_t>(workers.num_local_workers),
                                             TensorTable(layout, gradient.data()));
    NonfiniteReport nonfinite;
    for (const auto& coder : coders_) {
      coder->measure(gradients, {kMessageContext.step, nullptr}, stream);
      // Equal gradients: all workers have the same scalers.
      const std::span<float> own = coder->local_row(workers.first_local_worker);
      for (int worker = 0; worker < workers.num_workers; ++worker) {
        if (worker != workers.first_local_worker) std::ranges::copy(own, coder->local_row(worker).begin());
      }
      coder->combine_scalers(&nonfinite, nullptr, nullptr, stream);
      coder->encode(gradients, {kMessageContext.step, nullptr}, stream);
    }
  }

  void append(Parcels& out) {
    Stream stream(Device::cpu(), 1);
    transport_.append(rows_, coders_, 0, kMessageContext, out, stream);
  }
  /// @param mean  out: [layout.flat_elements()], slices with non-finite values are set to zero
  void read(const Parcels& parcels, std::vector<float>& mean) {
    Stream stream(Device::cpu(), 1);
    transport_.read(parcels, rows_, coders_, kMessageContext, stream);
    const TensorTable table(layout_, mean.data());
    for (const auto& coder : coders_) coder->aggregate(table, AggregateUnit::kMean, stream);
    for (const Slice& slice : whole_segments(layout_)) {
      const std::span<float> values(table.slice(slice), static_cast<std::size_t>(slice.count));
      if (!all_finite(values, stream)) std::ranges::fill(values, 0.0f);
    }
  }

 private:
  const Layout& layout_;
  GradientTransport transport_;
  PayloadRows rows_;
  std::vector<std::unique_ptr<Coder>> coders_;
};

/// Eight workers with equal gradients of message_layout() in two processes, which add floats before they send. The last
/// message, a sum, is tampered with. @param mean  out: [layout.flat_elements()], as in SummingRank::read()
/// @throws CommunicationError if the tampered message is refused
inline void tampered_sums(const ExchangeChoice& choice, const Tamper& tamper, std::vector<float>& mean) {
  constexpr int kWorkers = 8;
  const Layout& layout = message_layout();
  std::vector<float> gradient(static_cast<std::size_t>(layout.flat_elements()), 0.5f);
  mean.assign(gradient.size(), 0.0f);
  CodecPlanOptions options;
  options.rules = {parse_codec_rule(std::string("b=") + choice.codec_of_biases)};
  options.context.num_workers = kWorkers;
  options.codec = ternary_spec({.format = choice.format});
  const CodecPlan plan(layout, options);
  const std::vector<WorkerRange> ranks = {worker_range(kWorkers, 0, 2), worker_range(kWorkers, 1, 2)};
  SummingRank reader(layout, plan, ranks, 0, gradient);
  Parcels sent;
  reader.append(sent);
  SummingRank(layout, plan, ranks, 1, gradient).append(sent);
  Parcels received;
  for (std::size_t i = 0; i + 1 < sent.count(); ++i) received.append(sent.parcel(i));
  received.append(tamper(sent.parcel(sent.count() - 1)));
  reader.read(received, mean);
}

/// Runs the exchange that `choice` selects.
inline void tampered(const ExchangeChoice& choice, const Tamper& tamper, std::vector<float>& mean) {
  if (choice.tampered_call == 3) return tampered_sums(choice, tamper, mean);
  tampered_exchange(choice, tamper, mean);
}

}  // namespace terngrad::fuzz
