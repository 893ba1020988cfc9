// The choices and codecs that go together in an exchange, and the reasons why others do not.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "compress/codec/codec.h"
#include "compress/plan/exchange_choices.h"

namespace terngrad {

class CodecPlan;

/// Choices that an exchange combines with its codecs, and that go neither with every codec nor with each other.
struct Combination {
  ExchangeAlgorithm algorithm = ExchangeAlgorithm::kAuto;
  DownlinkCodec downlink_codec = DownlinkCodec::kFloat32;
  MemoryKind memory = MemoryKind::kNone;
  OnNonfinite on_nonfinite = OnNonfinite::kStop;
  bool is_vendor = false;       // the all-reduce of the communication library, whatever algorithm and codecs are
  bool has_servers = false;     // which own the shards
  bool updates_shards = false;  // servers send what an update makes of the mean, such as parameters
  bool has_groups = false;      // of workers, which exchange as one worker each
  bool is_pushed = false;       // asynchronous: gradients of workers do not come together
  bool is_on_gpus = false;      // gradients are in the memory of GPUs, and so is the exchange
};

/// The choice that is at fault.
enum class RefusedChoice { kAlgorithm, kVendor, kDownlinkCodec, kMemory, kOnNonfinite, kUpdate, kGroups, kPush };

/// A reason against a combination, with what is accepted. A message names the choice before it, as its reader does.
struct Refusal {
  RefusedChoice choice = RefusedChoice::kAlgorithm;
  std::string reason;
};

/// A codec of some tensors, and its name in a reason: "codec topk", "--codec topk".
struct NamedCodec {
  const Codec* codec = nullptr;
  std::string name;
};

/// The first reason why codecs, each of some tensors, do not go together with what is asked; none if they do.
std::optional<Refusal> find_refusal(std::span<const NamedCodec> codecs, const Combination& asked);

/// Checks the codecs of a plan.
/// @throws InvalidArgument naming the choice as the options of Exchange and of the C API do: "downlink_codec sums: ..."
void require_combination(const CodecPlan& plan, const Combination& asked);

}  // namespace terngrad
