// MemoryOptions: what workers keep of their gradients from step to step, and how it is written.
#pragma once

#include <string>
#include <string_view>

#include "compress/codec/codec_spec.h"

namespace terngrad {

enum class MemoryKind {
  kNone,
  kErrorFeedback,  // what messages left out: h = fl(fl(decay e) + g), e = fl(h - decoded message) (Seide et al., 2014)
  kMomentum,       // a moving average: h = fl(fl(decay u) + fl((1 - decay) g)), u = h (Signum, Bernstein et al., 2018)
  kDgc,            // momentum before error feedback (Lin et al., "Deep gradient compression", ICLR 2018), see below
};

/// Of kDgc, with the residual v, the velocity u and the decoded message d:
///
///   u' = fl(fl(decay u) + g)    h = fl(v + u'), nesterov: fl(v + fl(fl(decay u') + g))
///   v = fl(h - d)               u = 0 of elements where d is not 0 (momentum factor masking), else u'
///
/// Tensors whose codec loses nothing have no v and are not masked: h = u', or with nesterov fl(fl(decay u') + g), so
/// that their mean has momentum too.
struct MemoryOptions {
  MemoryKind kind = MemoryKind::kNone;
  double decay = 1;  // beta, or the momentum of kDgc; rounded to float32 where it is used, as is 1 - beta
  bool nesterov = false;

  friend bool operator==(const MemoryOptions&, const MemoryOptions&) = default;
};

/// Reads "none", "ef[:decay=NUMBER]" (default 1), "momentum[:decay=NUMBER]" (default 0.9) or
/// "dgc[:momentum=NUMBER,nesterov=true|false]" (defaults 0.9, false), written as specs of codecs are. @throws
/// InvalidArgument in one line that says what is accepted
MemoryOptions parse_memory(std::string_view spec);

/// The same with all values: equal texts for equal options. @throws InvalidArgument as parse_memory
std::string canonical_memory(std::string_view spec);

/// Buffers of a worker, each of as many numbers as the gradient: its state, and what is encoded.
constexpr int memory_buffers(MemoryKind kind) {
  return kind == MemoryKind::kNone ? 0 : kind == MemoryKind::kDgc ? 4 : 2;
}

/// "none", "ef", "momentum", "dgc": what parse_memory accepts before ':'.
std::string memory_name(MemoryKind kind);

}  // namespace terngrad
