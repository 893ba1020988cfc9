#include "compress/plan/combinations.h"

#include <algorithm>
#include <vector>

#include "compress/plan/codec_plan.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/slice.h"

namespace terngrad {
namespace {

using Codecs = std::span<const NamedCodec>;
using Found = std::optional<Refusal>;

template <class Matches>
const NamedCodec* find_codec(Codecs codecs, const Matches& matches) {
  const auto found = std::ranges::find_if(codecs, [&](const NamedCodec& each) { return matches(*each.codec); });
  return found == codecs.end() ? nullptr : &*found;
}

bool returns_integers(DownlinkCodec codec) { return codec == DownlinkCodec::kSums || codec == DownlinkCodec::kTernary; }
bool returns_floats(DownlinkCodec codec) {
  return codec == DownlinkCodec::kFloat32 || codec == DownlinkCodec::kBfloat16;
}

Found vendor_refusal(Codecs /*codecs*/, const ExchangeChoices& choices) {
  if (!choices.is_vendor) return {};
  if (choices.on_nonfinite == OnNonfinite::kZero) {
    return Refusal{RefusedChoice::kOnNonfinite,
                   "the all-reduce of the library (vendor) does not tell whose gradient was not finite; accepted with "
                   "it: stop, skip"};
  }
  if (choices.has_servers || choices.updates_shards) {
    return Refusal{RefusedChoice::kVendor, "an all-reduce has no servers; accepted with them: auto, scatter_reduce"};
  }
  if (choices.memory != MemoryKind::kNone) {
    return Refusal{RefusedChoice::kMemory,
                   "the all-reduce of the library (vendor) sends gradients as they are; accepted "
                   "with it: none"};
  }
  return {};
}

bool any_adds_up(Codecs codecs) {
  return find_codec(codecs, [](const Codec& codec) { return codec.traits().summable; }) != nullptr;
}

const std::string kNeedsSums =
    "needs codes of some tensor that add up as integers: those of ternary with sharing=max or mean and symmetric "
    "levels, "
    "of qsgd with sharing=max, or the votes of sign:reduce=vote";

Found algorithm_refusal(Codecs codecs, const ExchangeChoices& choices) {
  if (choices.is_vendor) return {};
  if (choices.has_servers && choices.algorithm != ExchangeAlgorithm::kAuto &&
      choices.algorithm != ExchangeAlgorithm::kScatterReduce) {
    return Refusal{RefusedChoice::kAlgorithm,
                   "servers own the shards of a gradient; accepted with them: auto, scatter_reduce"};
  }
  if (choices.algorithm != ExchangeAlgorithm::kIntegerSum) return {};
  if (any_adds_up(codecs)) return {};
  return Refusal{RefusedChoice::kAlgorithm, kNeedsSums + "; accepted with any codec: auto, all_gather, scatter_reduce"};
}

Found codes_refusal(Codecs codecs, const ExchangeChoices& choices) {
  if (choices.is_vendor || !returns_integers(choices.downlink_codec)) return {};
  const auto refusal = [](const std::string& reason) { return Refusal{RefusedChoice::kDownlinkCodec, reason}; };
  const auto has_own_scalers = [](const Codec& codec) { return codec.sharing() == ScalerSharing::kNone; };
  if (const NamedCodec* own = find_codec(codecs, has_own_scalers)) {
    return refusal("needs scalers that all workers share, and " + own->name +
                   " gives each its own (sharing=none); accepted with it: fp32, bf16");
  }
  const auto returns_none = [](const Codec& codec) { return !may_return_codes(codec); };
  if (const NamedCodec* decoded = find_codec(codecs, returns_none)) {
    return refusal("needs codes that add up as integers, which " + decoded->name +
                   " does not have; accepted with it: fp32, bf16");
  }
  if (!any_adds_up(codecs)) return refusal(kNeedsSums + "; accepted with any codec: fp32, bf16");
  if (choices.downlink_codec != DownlinkCodec::kTernary) return {};
  const auto votes = [](const Codec& codec) { return codec.traits().votes; };
  if (const NamedCodec* voting = find_codec(codecs, votes)) {
    return refusal("draws from sums of codes, which the votes of " + voting->name +
                   " are not; accepted with it: fp32, bf16, sums");
  }
  return {};
}

Found sparse_refusal(Codecs codecs, const ExchangeChoices& choices) {
  if (choices.is_vendor || choices.downlink_codec != DownlinkCodec::kSparse) return {};
  const auto refusal = [](const std::string& reason) { return Refusal{RefusedChoice::kDownlinkCodec, reason}; };
  if (find_codec(codecs, [](const Codec& codec) { return codec.traits().is_sparse; }) == nullptr) {
    return refusal("needs a sparse codec of some tensor, topk or randomk; accepted with any codec: fp32, bf16");
  }
  if (choices.algorithm == ExchangeAlgorithm::kAllGather || choices.algorithm == ExchangeAlgorithm::kIntegerSum) {
    return refusal("has no effect with " + word_of(choices.algorithm) +
                   ", where no mean travels back; accepted with that: fp32, bf16; accepted with sparse: auto, "
                   "scatter_reduce");
  }
  if (choices.is_on_gpus) {
    return refusal("has no kernels for GPUs; accepted on GPUs: fp32, bf16, and with codes that add up sums, ternary");
  }
  return {};
}

Found memory_refusal(Codecs codecs, const ExchangeChoices& choices) {
  if (choices.memory == MemoryKind::kNone) return {};
  const auto refusal = [](const std::string& reason) { return Refusal{RefusedChoice::kMemory, reason}; };
  const bool feeds_back = choices.memory == MemoryKind::kErrorFeedback;
  const bool is_dgc = choices.memory == MemoryKind::kDgc;
  const auto votes = [](const Codec& codec) { return codec.traits().votes; };
  if (const NamedCodec* voting = find_codec(codecs, votes); voting != nullptr && feeds_back) {
    return refusal("a vote is no sum, so what a message of " + voting->name +
                   " left out cannot be sent later; accepted with it: none, momentum; or reduce=mean");
  }
  const auto is_amplified = [](const Codec& codec) { return codec.traits().is_amplified; };
  if (const NamedCodec* amplified = find_codec(codecs, is_amplified); amplified != nullptr && (feeds_back || is_dgc)) {
    return refusal(amplified->name +
                   " scales up what it sends, so what is left out would grow without bound; accepted "
                   "with it: none, momentum; or scale=1");
  }
  const auto sends_all = [](const Codec& codec) { return !codec.traits().is_exact && !codec.traits().is_sparse; };
  if (const NamedCodec* dense = find_codec(codecs, sends_all); dense != nullptr && is_dgc) {
    return refusal("masks the momentum of elements that were sent, and " + dense->name +
                   " sends all of them; accepted with it: none, ef, momentum; or a sparse codec, topk or randomk");
  }
  if (find_codec(codecs, [](const Codec& codec) { return !codec.traits().is_exact; }) == nullptr) {
    return refusal(
        "has nothing to keep: all tensors travel as they are, because of their codec or because they are "
        "smaller than is compressed (min_elements, --size_to_binarize); accepted: none");
  }
  return {};
}

Found server_refusal(Codecs codecs, const ExchangeChoices& choices) {
  if (choices.has_groups && (choices.has_servers || choices.updates_shards)) {
    return Refusal{RefusedChoice::kGroups, "take no servers; accepted: shards that workers own"};
  }
  if (!choices.updates_shards) return {};
  const auto refusal = [](const std::string& reason) { return Refusal{RefusedChoice::kUpdate, reason}; };
  if (!choices.has_servers) return refusal("needs servers that own them");
  if (choices.is_on_gpus)
    return refusal("shards of gradients on GPUs cannot be updated by servers; accepted: gradient");
  const auto has_grain = [](const Codec& codec) {
    return codec.low_rank().has_value() || codec.traits().grain_elements != kChunkElements;
  };
  if (const NamedCodec* uncut = find_codec(codecs, has_grain)) {
    return refusal("servers cut tensors anywhere into the shards that they update, and " + uncut->name +
                   " takes whole tensors or blocks; accepted with it: gradient");
  }
  if (returns_floats(choices.downlink_codec)) return {};
  return Refusal{RefusedChoice::kDownlinkCodec,
                 "is for gradients, and servers that update send parameters back; accepted with them: fp32, bf16"};
}

Found push_refusal(Codecs codecs, const ExchangeChoices& choices) {
  if (!choices.is_pushed) return {};
  const auto refusal = [](const std::string& reason) { return Refusal{RefusedChoice::kPush, reason}; };
  const auto votes = [](const Codec& codec) { return codec.traits().votes; };
  if (const NamedCodec* voting = find_codec(codecs, votes)) {
    return refusal("gradients of workers do not come together, so there is no vote as " + voting->name +
                   " takes; accepted: reduce=mean");
  }
  const auto shares = [](const Codec& codec) { return shares_scalers(codec); };
  if (const NamedCodec* shared = find_codec(codecs, shares)) {
    return refusal("gradients of workers do not come together, so they cannot share the scalers of " + shared->name +
                   "; accepted: sharing=none");
  }
  if (returns_floats(choices.downlink_codec)) return {};
  return Refusal{RefusedChoice::kDownlinkCodec,
                 "is for gradients, and asynchronous servers send parameters back; accepted with them: fp32, bf16"};
}

/// The choice as the options of Exchange and of the C API name it.
std::string subject_of(RefusedChoice choice, const ExchangeChoices& choices) {
  switch (choice) {
    case RefusedChoice::kAlgorithm:
      return "algorithm " + word_of(choices.algorithm);
    case RefusedChoice::kVendor:
      return "vendor";
    case RefusedChoice::kDownlinkCodec:
      return "downlink_codec " + word_of(choices.downlink_codec);
    case RefusedChoice::kMemory:
      return "memory " + word_of(choices.memory);
    case RefusedChoice::kOnNonfinite:
      return "on_nonfinite " + word_of(choices.on_nonfinite);
    case RefusedChoice::kUpdate:
      return "an update of shards";
    case RefusedChoice::kGroups:
      return "groups of workers";
    default:
      return "a push";
  }
}

}  // namespace

std::optional<Refusal> find_refusal(std::span<const NamedCodec> codecs, const ExchangeChoices& choices) {
  for (const auto& rule : {vendor_refusal, push_refusal, memory_refusal, server_refusal, sparse_refusal,
                           algorithm_refusal, codes_refusal}) {
    if (std::optional<Refusal> refusal = rule(codecs, choices)) return refusal;
  }
  return std::nullopt;
}

void require_combination(const CodecPlan& plan, const ExchangeChoices& choices) {
  std::vector<NamedCodec> codecs;
  for (const CodecPlan::Group& group : plan.groups()) {
    codecs.push_back({group.codec.get(), "codec " + group.codec->name()});
  }
  const std::optional<Refusal> refusal = find_refusal(codecs, choices);
  if (!refusal) return;
  TERNGRAD_THROW(InvalidArgument, "[exchange] ", subject_of(refusal->choice, choices), ": ", refusal->reason);
}

}  // namespace terngrad
