// MemoryOptions: kind and settings of the worker memory, and its spec.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compress/codec/codec_spec.h"
#include "compress/plan/exchange_choices.h"

namespace terngrad {

/// Update rules of kDgc, with residual v, velocity u and decoded message d:
///
///   u' = fl(fl(decay u) + g)    h = fl(v + u'), nesterov: fl(v + fl(fl(decay u') + g))
///   v = fl(h - d)               u = 0 for elements with d != 0 (momentum factor masking), else u'
///
/// Tensors with lossless codecs have no v and are not masked: h = u', or with nesterov fl(fl(decay u') + g), so that
/// their mean has momentum too.
///
/// Update rules of kEf21, with a worker's estimate e, the mean G of all workers' estimates, decoded message d, and with
/// a decay a moving average v of gradients (Fatkhullin et al., "Momentum Provably Improves Error Feedback!", NeurIPS
/// 2023), else v' = g:
///
///   v' = fl(fl(decay v) + fl((1 - decay) g))    h = fl(v' - e)
///   e = fl(e + d)                               G = fl(G + mean of d), which is the mean of the exchange
///
/// Tensors with lossless codecs have no state, and their gradients are averaged as they are.
struct MemoryOptions {
  MemoryKind kind = MemoryKind::kNone;
  double decay = 1;  // beta, 0 for kEf21 without an average, or the momentum of kDgc; rounded to float32 where it is
                     // used, as is 1 - beta
  bool nesterov = false;
  std::int64_t reset = 0;  // kLoco: the residual counts as 0 in steps that are multiples of it; 0: never

  friend bool operator==(const MemoryOptions&, const MemoryOptions&) = default;
};

/// Parses "none", "ef[:decay=NUMBER]" (default 1), "momentum[:decay=NUMBER]" (default 0.9),
/// "dgc[:momentum=NUMBER,nesterov=true|false]" (defaults 0.9, false), "loco[:decay=NUMBER,reset=STEPS]" (defaults 0.8,
/// 1024) or "ef21[:decay=NUMBER]" (default 0), in the syntax of codec specs.
/// @throws InvalidArgument with one line that says what is accepted
MemoryOptions parse_memory(std::string_view spec);

/// The spec with all values: equal texts for equal options. @throws InvalidArgument as parse_memory
std::string canonical_memory(std::string_view spec);

/// Bytes per element and worker: the state, the compensated gradient, and the next velocity of kDgc or kEf21.
double memory_bytes(const MemoryOptions& options);
/// Bytes per element and process, however many workers it has: with kEf21 the mean of the estimates and its next value.
double shared_memory_bytes(const MemoryOptions& options);

}  // namespace terngrad
