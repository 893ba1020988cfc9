// Decodes fuzzed messages and payloads with any codec of the registry.
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

/// Specs that cover every record format: each codec's defaults, then single key=word options that change the format.
inline std::vector<std::string> specs_of_every_format() {
  std::vector<std::string> specs;
  std::set<std::pair<int, int>> known;  // wire id and format
  const auto add = [&](const std::string& spec) {
    try {
      const auto codec = make_codec(spec, {});
      if (known.emplace(codec->wire_id(), codec->record_format(PayloadForm::kNatural)).second) specs.push_back(spec);
    } catch (const InvalidArgument&) {
      // This word is valid only together with another key.
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

/// Codec and exchange that two input bytes select.
struct CodecChoice {
  std::string spec;           // first byte, modulo the number of specs
  bool scatters;              // second byte, bit 0: scatter_reduce
  std::size_t tampered_call;  // bits 1, 2: index of the tampered collective (scalers, gradients, means)
  int segment;                // bit 3: segment of read_codes(), with 10000 elements or 3
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

/// Exchanges the gradients of two workers, all tensors with this codec. @param mean  out: [layout.flat_elements()]
/// @throws CommunicationError if the tampered message is refused
inline void tampered_exchange(const CodecChoice& choice, const Tamper& tamper, std::vector<float>& mean) {
  CompressedAllReduceOptions options;
  // Both rounds of a low-rank codec send fp32.
  options.codecs.codec = make_codec(choice.spec, {})->low_rank() ? "fp32" : choice.spec;
  options.algorithm = choice.scatters ? ExchangeAlgorithm::kScatterReduce : ExchangeAlgorithm::kAllGather;
  // The exchange checks means only if the codec can overflow: tampered fp32 means of a summable codec would pass.
  if (make_codec(choice.spec, {})->traits().summable) options.downlink_codec = DownlinkCodec::kSums;
  tampered_exchange(options, choice.tampered_call, tamper, mean);
}

/// Checks a payload, decodes it and averages two copies of it. @throws CommunicationError if it is refused
inline void read_codes(const CodecChoice& choice, std::span<const std::uint8_t> codes) {
  const Layout& layout = message_layout();
  const auto codec = make_codec(choice.spec, {.num_workers = 2});
  const Slice slice{choice.segment, 0, layout.segment(choice.segment).num_elements};
  // Allocates exactly the payload, so that sanitizers detect an overrun; new gives the alignment of payloads.
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
