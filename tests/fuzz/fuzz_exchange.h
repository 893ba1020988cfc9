// An exchange of two workers, one of whose messages is tampered with on its way.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "compress/compressed_all_reduce.h"
#include "tests/fuzz/fuzz_message.h"

namespace terngrad::fuzz {

/// Which exchange an input is for: each byte stands for one.
struct ExchangeChoice {
  TernaryFormat format;         // bits 0, 1: t2, t5, tmask, t2
  bool scatters;                // bit 2: scatter_reduce, whose means travel back as sums of codes
  bool own_scalers;             // bit 3: no shared scaler; the mean then goes back as bf16
  bool blocks;                  // bit 4: a scaler for each 4096 elements
  std::size_t tampered_call;    // bits 5, 6: the collective whose message is tampered with: scalers, gradients, means
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

/// A group of one process that hands every message over as it is, but for the last one of one collective.
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
  options.return_codec = choice.own_scalers ? ReturnCodec::kBfloat16 : ReturnCodec::kSums;
  options.on_nonfinite = OnNonfinite::kZero;
  options.run_id = kMessageContext.run_id;
  auto communicator = std::make_shared<TamperingCommunicator>(choice.tampered_call, tamper);
  CompressedAllReduce exchange(layout, make_worker_group(2, std::move(communicator)), options);
  const std::vector<TensorTable> gradients(2, TensorTable(layout, gradient.data()));
  return exchange.exchange(gradients, TensorTable(layout, mean.data()), kMessageContext.step);
}

}  // namespace terngrad::fuzz
