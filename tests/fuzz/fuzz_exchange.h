// An exchange of two workers, or of two processes of four, one of whose messages is tampered with on its way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/exchange/compressed_all_reduce.h"
#include "compress/wire/gradient_transport.h"
#include "compress/wire/worker_encoder.h"
#include "kernels/tensor/transform.h"
#include "tests/fuzz/fuzz_message.h"

namespace terngrad::fuzz {

/// Which exchange an input is for: each byte stands for one.
struct ExchangeChoice {
  TernaryFormat format;         // bits 0, 1: t2, t5, tmask, t2
  bool scatters;                // bit 2: scatter_reduce, whose means travel back as sums of codes
  bool own_scalers;             // bit 3: no shared scaler; the mean then goes back as bf16
  bool blocks;                  // bit 4: a scaler for each 4096 elements
  std::size_t tampered_call;    // bits 5, 6: the collective whose message is tampered with: scalers, gradients, means;
                                // 3: the gradients of processes, which add the floats of their workers
  const char* codec_of_biases;  // bit 7: fp32 or bf16
};

inline ExchangeChoice exchange_choice(std::uint8_t byte) {
  constexpr TernaryFormat kFormats[] = {TernaryFormat::kT2, TernaryFormat::kT5, TernaryFormat::kTMask,
                                        TernaryFormat::kT2};
  return {.format = kFormats[byte & 3u],
          .scatters = (byte & 4u) != 0,
          .own_scalers = (byte & 8u) != 0,
          .blocks = (byte & 16u) != 0,
          .tampered_call = (byte >> 5u) & 3u,
          .codec_of_biases = (byte & 128u) != 0 ? "fp32" : "bf16"};
}

using Tamper = std::function<std::vector<std::uint8_t>(std::span<const std::uint8_t> message)>;

/// A group of one process that hands every message over as it is, except for the last one of one collective.
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

/// Exchanges two equal gradients of message_layout(). @param mean  out: [layout.flat_elements()]
/// @throws CommunicationError if the tampered message is refused
inline ExchangeReport tampered_exchange(const ExchangeChoice& choice, const Tamper& tamper, std::vector<float>& mean) {
  const Layout& layout = message_layout();
  std::vector<float> gradient(static_cast<std::size_t>(layout.flat_elements()));
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>(i % 7) - 3.0f;
  mean.assign(gradient.size(), 0.0f);
  CompressedAllReduceOptions options;
  options.codecs.rules = {parse_codec_rule(std::string("b=") + choice.codec_of_biases)};
  TernaryOptions& ternary = options.codecs.codec_options.ternary;
  ternary.format = choice.format;
  ternary.sharing = choice.own_scalers ? ScalerSharing::kNone : ScalerSharing::kMax;
  ternary.scope = choice.blocks ? ScalerScope::kBlock : ScalerScope::kLayer;
  ternary.block_elements = 4096;
  options.algorithm = choice.scatters ? ExchangeAlgorithm::kScatterReduce : ExchangeAlgorithm::kAllGather;
  options.downlink_codec = choice.own_scalers ? DownlinkCodec::kBfloat16 : DownlinkCodec::kSums;
  options.on_nonfinite = OnNonfinite::kZero;
  options.run_id = kMessageContext.run_id;
  auto communicator = std::make_shared<TamperingCommunicator>(choice.tampered_call, tamper);
  CompressedAllReduce exchange(layout, make_worker_group(2, std::move(communicator)), options);
  const std::vector<TensorTable> gradients(2, TensorTable(layout, gradient.data()));
  return exchange.exchange(gradients, TensorTable(layout, mean.data()), kMessageContext.step);
}

/// Eight workers' equal gradients of message_layout() in two processes, which add what travels as floats. The last
/// message, a sum, is tampered with. @param mean  out: [layout.flat_elements()], what is not finite as zero
/// @throws CommunicationError if the tampered message is refused
inline void tampered_sums(const ExchangeChoice& choice, const Tamper& tamper, std::vector<float>& mean) {
  constexpr int kWorkers = 8;
  const Layout& layout = message_layout();
  std::vector<float> gradient(static_cast<std::size_t>(layout.flat_elements()), 0.5f);
  mean.assign(gradient.size(), 0.0f);
  CodecPlanOptions options;
  options.rules = {parse_codec_rule(std::string("b=") + choice.codec_of_biases)};
  options.codec_options.num_workers = kWorkers;
  options.codec_options.ternary.format = choice.format;
  const CodecPlan plan(layout, options);
  const std::vector<WorkerRange> ranks = {worker_range(kWorkers, 0, 2), worker_range(kWorkers, 1, 2)};
  const std::vector<float> shared(static_cast<std::size_t>(plan.num_scalers()), 1.0f);
  const std::vector<std::vector<Slice>> parts = {whole_segments(layout)};
  Stream stream(Device::cpu(), 1);
  Parcels sent;
  for (int rank = 0; rank < 2; ++rank) {
    std::vector<MessageWriter> writers(kWorkers / 2);
    std::vector<std::span<const std::uint8_t>> messages;
    for (int local = 0; local < kWorkers / 2; ++local) {
      WorkerEncoder encoder(layout, plan, ranks[static_cast<std::size_t>(rank)].first_local_worker + local);
      const TensorTable table(layout, gradient.data());
      encoder.measure(table, 1, kMessageContext.step, stream);
      messages.push_back(encoder.gradient_message(table, {parts[0], shared}, kMessageContext,
                                                  writers[static_cast<std::size_t>(local)], stream));
    }
    GradientTransport(layout, plan, ranks, rank).append(messages, parts[0], kMessageContext, sent, stream);
  }
  Parcels received;
  for (std::size_t i = 0; i + 1 < sent.count(); ++i) received.append(sent.parcel(i));
  received.append(tamper(sent.parcel(sent.count() - 1)));
  GradientTransport reader(layout, plan, ranks, 0);
  reader.read(received, parts, kMessageContext, stream);
  const TensorTable table(layout, mean.data());
  for (std::size_t i = 0; i < parts[0].size(); ++i) {
    const Slice& slice = parts[0][i];
    if (slice.count == 0) continue;
    std::vector<EncodedSlice> encoded;
    const GradientTransport::Source source = reader.append_slice(0, i, encoded);
    const AggregateJob job{slice, encoded, table.slice(slice), source.workers};
    plan.codec_of(slice.segment).aggregate({&job, 1}, AggregateUnit::kMean, stream);
    std::span<float> values(table.slice(slice), static_cast<std::size_t>(slice.count));
    if (!all_finite(values, stream)) std::ranges::fill(values, 0.0f);
  }
}

/// What the choice says.
inline void tampered(const ExchangeChoice& choice, const Tamper& tamper, std::vector<float>& mean) {
  if (choice.tampered_call == 3) return tampered_sums(choice, tamper, mean);
  tampered_exchange(choice, tamper, mean);
}

}  // namespace terngrad::fuzz
