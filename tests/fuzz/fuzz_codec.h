// What comes in place of a worker's message or codes, with any codec of the registry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/plan/codec_registry.h"
#include "kernels/runtime/errors.h"
#include "tests/fuzz/fuzz_exchange.h"

namespace terngrad::fuzz {

/// Of each codec its defaults, then words of its keys, each alone, that lead to another format.
inline std::vector<std::string> specs_of_every_format() {
  std::vector<std::string> specs;
  std::set<std::pair<int, int>> known;  // wire id and format
  const auto add = [&](const std::string& spec) {
    try {
      const auto codec = make_codec(spec, {});
      if (known.emplace(codec->wire_id(), codec->record_format(PayloadForm::kNatural)).second) specs.push_back(spec);
    } catch (const InvalidArgument&) {
      // The word needs another value of another key.
    }
  };
  for (const std::string& name : codec_names()) {
    add(name);
    for (const SpecKey& key : codec_keys(name)) {
      for (const std::string& word : key.words) add(name + ":" + key.name + "=" + word);
    }
  }
  return specs;
}

/// Which codec and exchange an input is for: two bytes, of which each pair stands for one.
struct CodecChoice {
  std::string spec;           // the first byte, modulo their number: a spec of every format
  bool scatters;              // bit 0 of the second: scatter_reduce
  std::size_t tampered_call;  // bits 1, 2: the collective whose message is tampered with: scalers, gradients, means
  int segment;                // bit 3: whose codes are given: 10000 elements or 3
};

inline const std::vector<std::string>& fuzzed_specs() {
  static const std::vector<std::string> specs = specs_of_every_format();
  return specs;
}

inline CodecChoice codec_choice(std::uint8_t codec, std::uint8_t exchange) {
  return {.spec = fuzzed_specs()[codec % fuzzed_specs().size()],
          .scatters = (exchange & 1u) != 0,
          .tampered_call = (exchange >> 1u) & 3u,
          .segment = (exchange & 8u) != 0 ? 2 : 0};
}

/// An exchange of two workers, all tensors with that codec. @param mean  out: [layout.flat_elements()]
/// @throws CommunicationError if the tampered message is refused
inline void tampered_exchange(const CodecChoice& choice, const Tamper& tamper, std::vector<float>& mean) {
  CompressedAllReduceOptions options;
  // Both rounds of low rank are exchanges of fp32.
  options.codecs.codec = make_codec(choice.spec, {})->low_rank() ? "fp32" : choice.spec;
  options.algorithm = choice.scatters ? ExchangeAlgorithm::kScatterReduce : ExchangeAlgorithm::kAllGather;
  // Numbers that come in place of a mean may be anything; those of codecs that can overflow are looked at.
  if (make_codec(choice.spec, {})->traits().summable) options.downlink_codec = DownlinkCodec::kSums;
  tampered_exchange(options, choice.tampered_call, tamper, mean);
}

/// Checks a slice of these codes, decodes it and aggregates it with itself. @throws CommunicationError if it is refused
inline void read_codes(const CodecChoice& choice, std::span<const std::uint8_t> codes) {
  const Layout& layout = message_layout();
  const auto codec = make_codec(choice.spec, {.num_workers = 2});
  const Slice slice{choice.segment, 0, layout.segment(choice.segment).num_elements};
  // Exactly as long, so that one byte too far is noticed; new gives the alignment that codes have.
  const auto payload = std::make_unique<std::uint8_t[]>(codes.size());
  std::memcpy(payload.get(), codes.data(), codes.size());
  const auto num_scalers = static_cast<std::size_t>(codec->scaler_range(slice).count);
  const std::vector<float> scalers(num_scalers, codec->traits().max_scaler > 0 ? 0.5f : 0.0f);
  const EncodedSlice encoded{.slice = slice,
                             .format = codec->record_format(PayloadForm::kNatural),
                             .scalers = scalers,
                             .payload = {payload.get(), codes.size()},
                             .key = StepKey{1, 2}};
  codec->check(encoded);
  std::vector<float> values(static_cast<std::size_t>(layout.flat_elements()));
  codec->decode(encoded, std::span(values).first(static_cast<std::size_t>(slice.count)));

  PayloadSlots slots{.aggregated = {slice}, .num_payloads = 2};
  slots.incoming.assign(2, payload.get());
  slots.incoming_bytes.assign(2, static_cast<std::int64_t>(codes.size()));
  const CoderSetup setup{.layout = layout,
                         .workers = {.num_workers = 2, .first_local_worker = 0, .num_local_workers = 0}};
  const auto coder = codec->make_coder(setup, {choice.segment}, slots);
  for (int worker = 0; worker < 2; ++worker) std::ranges::copy(scalers, coder->local_row(worker).begin());
  Stream stream(Device::cpu(), 1);
  NonfiniteReport report;
  coder->combine_scalers(&report, nullptr, nullptr, stream);
  coder->aggregate(TensorTable(layout, values.data()), AggregateUnit::kMean, stream);
}

}  // namespace terngrad::fuzz
