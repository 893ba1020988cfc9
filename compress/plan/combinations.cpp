#include "compress/plan/combinations.h"

#include <algorithm>
#include <functional>
#include <utility>
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

Found refuse(RefusedChoice choice, std::string reason) { return Refusal{choice, std::move(reason)}; }

bool is_summable(const Codec& codec) { return codec.traits().summable; }
bool is_sparse(const Codec& codec) { return codec.traits().is_sparse; }
bool is_exact(const Codec& codec) { return codec.traits().is_exact; }
bool is_amplified(const Codec& codec) { return codec.traits().is_amplified; }
bool votes(const Codec& codec) { return codec.traits().votes; }
bool is_low_rank(const Codec& codec) { return codec.low_rank().has_value(); }
bool has_own_scalers(const Codec& codec) { return codec.sharing() == ScalerSharing::kNone; }
bool has_grain(const Codec& codec) {
  return codec.low_rank().has_value() || codec.traits().grain_elements != kChunkElements;
}

bool returns_integers(DownlinkCodec codec) { return codec == DownlinkCodec::kSums || codec == DownlinkCodec::kTernary; }
bool returns_floats(DownlinkCodec codec) {
  return codec == DownlinkCodec::kFloat32 || codec == DownlinkCodec::kBfloat16;
}

std::string needs_sums(const char* accepted) {
  return std::string(
             "needs codes of some tensor that add up as integers: those of ternary with sharing=max or mean "
             "and symmetric levels, of qsgd with sharing=max, or the votes of sign:reduce=vote; accepted with "
             "any codec: ") +
         accepted;
}

Found vendor_refusal(Codecs /*codecs*/, const Combination& asked) {
  if (!asked.is_vendor) return {};
  if (asked.on_nonfinite == OnNonfinite::kZero) {
    return refuse(RefusedChoice::kOnNonfinite,
                  "the all-reduce of the library (vendor) does not tell whose gradient was not finite; accepted with "
                  "it: stop, skip");
  }
  if (asked.has_servers || asked.updates_shards) {
    return refuse(RefusedChoice::kVendor, "an all-reduce has no servers; accepted with them: auto, scatter_reduce");
  }
  if (asked.has_groups) {
    return refuse(RefusedChoice::kGroups,
                  "the all-reduce of the library (vendor) chooses levels of its own; accepted with it: groups of 1");
  }
  if (asked.memory == MemoryKind::kNone) return {};
  return refuse(RefusedChoice::kMemory,
                "the all-reduce of the library (vendor) sends gradients as they are; accepted with it: none");
}

Found push_refusal(Codecs codecs, const Combination& asked) {
  if (!asked.is_pushed) return {};
  if (const NamedCodec* voting = find_codec(codecs, votes)) {
    return refuse(RefusedChoice::kPush, "gradients of workers do not come together, so there is no vote as " +
                                            voting->name + " takes; accepted: reduce=mean");
  }
  if (const NamedCodec* shared = find_codec(codecs, shares_scalers)) {
    return refuse(RefusedChoice::kPush,
                  "gradients of workers do not come together, so they cannot share the scalers of " + shared->name +
                      "; accepted: sharing=none");
  }
  const auto is_stratified = [](const Codec& codec) { return codec.traits().is_stratified; };
  if (const NamedCodec* stratified = find_codec(codecs, is_stratified)) {
    return refuse(RefusedChoice::kPush, "gradients of workers do not come together, so the stratified draws of " +
                                            stratified->name + " would cancel no error; accepted: rounding=stochastic");
  }
  if (returns_floats(asked.downlink_codec)) return {};
  return refuse(RefusedChoice::kDownlinkCodec,
                "is for gradients, and asynchronous servers send parameters back; accepted with them: fp32, bf16");
}

Found nothing_kept_refusal(Codecs codecs) {
  if (find_codec(codecs, std::not_fn(is_exact)) != nullptr) return {};
  return refuse(RefusedChoice::kMemory,
                "has nothing to keep: all tensors travel as they are, because of their codec or because they are "
                "smaller than is compressed (min_elements, --size_to_binarize); accepted: none");
}

/// Reasons against MemoryKind::kEf21.
Found estimate_refusal(Codecs codecs, const Combination& asked) {
  if (const NamedCodec* voting = find_codec(codecs, votes)) {
    return refuse(RefusedChoice::kMemory, "adds up messages to an estimate of the gradient, and the votes of " +
                                              voting->name +
                                              " are no messages to add; accepted with it: none, momentum; or sign "
                                              "with its defaults");
  }
  if (const NamedCodec* low_rank = find_codec(codecs, is_low_rank)) {
    return refuse(RefusedChoice::kMemory, "needs messages that each worker can decode alone, and the factors of " +
                                              low_rank->name + " belong to all; accepted with it: none, ef, momentum");
  }
  const auto adds_error = [](const Codec& codec) { return !codec.traits().is_contractive; };
  if (const NamedCodec* noisy = find_codec(codecs, adds_error)) {
    return refuse(
        RefusedChoice::kMemory,
        "diverges with a codec whose error is as large as what it encodes (vNMSE of 1 or more), as that of " +
            noisy->name +
            "; accepted with it: none, momentum; or eden, topk, qsgd and sign with their defaults, ternary with "
            "clip_factor=1.5 or rounding=nearest");
  }
  if (asked.is_pushed) {
    return refuse(RefusedChoice::kMemory,
                  "keeps the mean of what all workers sent, and pushes of workers do not come together; accepted with "
                  "them: none, ef, momentum");
  }
  if (asked.updates_shards) {
    return refuse(RefusedChoice::kMemory,
                  "keeps the mean of what all workers sent with the workers, and servers update in their place; "
                  "accepted with them: none, ef, momentum; or updates by the workers (--pull gradient)");
  }
  if (asked.on_nonfinite == OnNonfinite::kZero) {
    return refuse(RefusedChoice::kOnNonfinite,
                  "would count the change of an estimate as zeros, not the gradient (memory ef21); accepted with it: "
                  "stop, skip (in a DDP hook propagate, raise)");
  }
  if (asked.downlink_codec == DownlinkCodec::kBfloat16 || asked.downlink_codec == DownlinkCodec::kTernary) {
    return refuse(RefusedChoice::kDownlinkCodec,
                  "rounds the mean, whose errors would add up in the estimate of memory ef21; accepted with it: fp32");
  }
  return nothing_kept_refusal(codecs);
}

Found memory_refusal(Codecs codecs, const Combination& asked) {
  if (asked.memory == MemoryKind::kNone) return {};
  const bool is_loco = asked.memory == MemoryKind::kLoco;
  const bool feeds_back = asked.memory == MemoryKind::kErrorFeedback || is_loco;
  const bool is_dgc = asked.memory == MemoryKind::kDgc;
  if (asked.memory == MemoryKind::kEf21) return estimate_refusal(codecs, asked);
  if (const NamedCodec* voting = find_codec(codecs, votes); voting != nullptr && feeds_back) {
    return refuse(RefusedChoice::kMemory,
                  "a vote is no sum, so what a message of " + voting->name +
                      " left out cannot be sent later; accepted with it: none, momentum; or reduce=mean");
  }
  if (const NamedCodec* amplified = find_codec(codecs, is_amplified); amplified != nullptr && (feeds_back || is_dgc)) {
    return refuse(RefusedChoice::kMemory,
                  amplified->name +
                      " scales up what it sends, so what is left out would grow without bound; accepted "
                      "with it: none, momentum; or scale=1");
  }
  const auto sends_all = [](const Codec& codec) { return !is_exact(codec) && !is_sparse(codec); };
  if (const NamedCodec* dense = find_codec(codecs, sends_all); dense != nullptr && is_dgc) {
    return refuse(RefusedChoice::kMemory,
                  "masks the momentum of elements that were sent, and " + dense->name +
                      " sends all of them; accepted with it: none, ef, momentum; or a sparse codec, topk or randomk");
  }
  if (const NamedCodec* low_rank = find_codec(codecs, is_low_rank); low_rank != nullptr && is_loco) {
    return refuse(RefusedChoice::kMemory, "cannot keep what the factors of " + low_rank->name +
                                              " leave out in 8 bits; accepted with it: none, ef, momentum");
  }
  return nothing_kept_refusal(codecs);
}

Found server_refusal(Codecs codecs, const Combination& asked) {
  if (asked.has_groups && (asked.has_servers || asked.updates_shards)) {
    return refuse(RefusedChoice::kGroups, "take no servers; accepted: shards that workers own");
  }
  if (!asked.updates_shards) return {};
  if (!asked.has_servers) return refuse(RefusedChoice::kUpdate, "needs servers that own them");
  if (asked.is_on_gpus) {
    return refuse(RefusedChoice::kUpdate,
                  "servers update on CPUs, and the gradients are on GPUs; accepted with them: updates by the workers");
  }
  if (const NamedCodec* uncut = find_codec(codecs, has_grain)) {
    return refuse(RefusedChoice::kUpdate,
                  "servers cut tensors anywhere into the shards that they update, and " + uncut->name +
                      " takes whole tensors or blocks; accepted with it: updates by the workers (--pull gradient)");
  }
  if (returns_floats(asked.downlink_codec)) return {};
  return refuse(RefusedChoice::kDownlinkCodec,
                "is for gradients, and servers that update send parameters back; accepted with them: fp32, bf16");
}

Found sparse_refusal(Codecs codecs, const Combination& asked) {
  if (asked.is_vendor || asked.downlink_codec != DownlinkCodec::kSparse) return {};
  if (find_codec(codecs, is_sparse) == nullptr) {
    return refuse(RefusedChoice::kDownlinkCodec,
                  "needs a sparse codec of some tensor, topk or randomk; accepted with any codec: fp32, bf16");
  }
  if (asked.algorithm == ExchangeAlgorithm::kAllGather || asked.algorithm == ExchangeAlgorithm::kIntegerSum) {
    return refuse(RefusedChoice::kDownlinkCodec,
                  "has no effect with " + word_of(asked.algorithm) +
                      ", where no mean travels back; accepted with that: fp32, bf16; accepted with sparse: auto, "
                      "scatter_reduce");
  }
  if (!asked.is_on_gpus) return {};
  return refuse(RefusedChoice::kDownlinkCodec,
                "has no kernels for GPUs: it needs gradients on CPUs (--device cpu, or --strategy ps with "
                "--num_servers 1 or more); "
                "accepted on GPUs: fp32, bf16, and with codes that add up sums, ternary");
}

Found algorithm_refusal(Codecs codecs, const Combination& asked) {
  if (asked.is_vendor) return {};
  if (asked.has_servers && asked.algorithm != ExchangeAlgorithm::kAuto &&
      asked.algorithm != ExchangeAlgorithm::kScatterReduce) {
    return refuse(RefusedChoice::kAlgorithm,
                  "servers own the shards of a gradient; accepted with them: auto, scatter_reduce");
  }
  if (asked.algorithm != ExchangeAlgorithm::kIntegerSum || find_codec(codecs, is_summable) != nullptr) return {};
  return refuse(RefusedChoice::kAlgorithm, needs_sums("auto, all_gather, scatter_reduce"));
}

Found codes_refusal(Codecs codecs, const Combination& asked) {
  if (asked.is_vendor || !returns_integers(asked.downlink_codec)) return {};
  if (const NamedCodec* own = find_codec(codecs, has_own_scalers)) {
    return refuse(RefusedChoice::kDownlinkCodec,
                  "needs scalers that all workers share, and " + own->name +
                      " gives each its own (sharing=none); accepted with it: fp32, bf16");
  }
  if (const NamedCodec* decoded = find_codec(codecs, std::not_fn(may_return_codes))) {
    return refuse(RefusedChoice::kDownlinkCodec, "needs codes that add up as integers, which " + decoded->name +
                                                     " does not have; accepted with it: fp32, bf16");
  }
  if (find_codec(codecs, is_summable) == nullptr)
    return refuse(RefusedChoice::kDownlinkCodec, needs_sums("fp32, bf16"));
  const NamedCodec* voting = find_codec(codecs, votes);
  if (voting == nullptr || asked.downlink_codec != DownlinkCodec::kTernary) return {};
  return refuse(RefusedChoice::kDownlinkCodec, "draws from sums of codes, which the votes of " + voting->name +
                                                   " are not; accepted with it: fp32, bf16, sums");
}

/// The choice as the options of Exchange and of the C API name it.
std::string subject_of(RefusedChoice choice, const Combination& asked) {
  switch (choice) {
    case RefusedChoice::kAlgorithm:
      return "algorithm " + word_of(asked.algorithm);
    case RefusedChoice::kVendor:
      return "vendor";
    case RefusedChoice::kDownlinkCodec:
      return "downlink_codec " + word_of(asked.downlink_codec);
    case RefusedChoice::kMemory:
      return "memory " + word_of(asked.memory);
    case RefusedChoice::kOnNonfinite:
      return "on_nonfinite " + word_of(asked.on_nonfinite);
    case RefusedChoice::kUpdate:
      return "an update of shards";
    case RefusedChoice::kGroups:
      return "groups of workers";
    default:
      return "a push";
  }
}

}  // namespace

std::optional<Refusal> find_refusal(std::span<const NamedCodec> codecs, const Combination& asked) {
  for (const auto& rule : {vendor_refusal, push_refusal, memory_refusal, server_refusal, sparse_refusal,
                           algorithm_refusal, codes_refusal}) {
    if (std::optional<Refusal> refusal = rule(codecs, asked)) return refusal;
  }
  return std::nullopt;
}

void require_combination(const CodecPlan& plan, const Combination& asked) {
  std::vector<NamedCodec> codecs;
  for (const CodecPlan::Group& group : plan.groups()) {
    codecs.push_back({group.codec.get(), "codec " + group.codec->name()});
  }
  const std::optional<Refusal> refusal = find_refusal(codecs, asked);
  if (!refusal) return;
  TERNGRAD_THROW(InvalidArgument, "[exchange] ", subject_of(refusal->choice, asked), ": ", refusal->reason);
}

}  // namespace terngrad
