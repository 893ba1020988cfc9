// MemoryOptions: what workers keep of their gradients from step to step, and how it is written.
#pragma once

#include <string>
#include <string_view>

#include "compress/coding/codec_spec.h"

namespace terngrad {

enum class MemoryKind {
  kNone,
  kErrorFeedback,  // what messages left out: h = fl(fl(decay e) + g), e = fl(h - decoded message) (Seide et al., 2014)
  kMomentum,       // a moving average: h = fl(fl(decay u) + fl((1 - decay) g)), u = h (Signum, Bernstein et al., 2018)
};

struct MemoryOptions {
  MemoryKind kind = MemoryKind::kNone;
  double decay = 1;  // beta; rounded to float32 where it is used, as is 1 - beta

  friend bool operator==(const MemoryOptions&, const MemoryOptions&) = default;
};

/// Reads "none", "ef[:decay=NUMBER]" (default 1) or "momentum[:decay=NUMBER]" (default 0.9), written as specs of codecs
/// are. @throws InvalidArgument in one line that says what is accepted
MemoryOptions parse_memory(std::string_view spec);

/// The same with all values: equal texts for equal options. @throws InvalidArgument as parse_memory
std::string canonical_memory(std::string_view spec);

/// "none", "ef", "momentum": what parse_memory accepts before ':'.
std::string memory_name(MemoryKind kind);

}  // namespace terngrad
