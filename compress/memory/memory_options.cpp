#include "compress/memory/memory_options.h"

#include <optional>
#include <utility>

#include "kernels/runtime/errors.h"
#include "kernels/tensor/averaged_residual.h"

namespace terngrad {
namespace {

/// With a decay of 1 gradients would have no effect.
constexpr double kMaxAverageDecay = 0.9999;
constexpr std::int64_t kMaxReset = 1'000'000'000;

MemoryKind kind_of(const std::string& name) {
  const std::optional<MemoryKind> kind = find_choice<MemoryKind>(name);
  TERNGRAD_REQUIRE(kind.has_value(), "[memory] unknown memory '", name, "'; accepted: ", accepted_words<MemoryKind>());
  return *kind;
}

std::pair<MemoryOptions, CodecSpec> read(CodecSpec spec) {
  MemoryOptions options{.kind = kind_of(spec.name)};
  SpecReader reader(std::move(spec));
  if (options.kind == MemoryKind::kErrorFeedback) {
    options.decay = reader.number("decay", 1, 0, 1, "what is left of the residual in the next step");
  } else if (options.kind == MemoryKind::kMomentum) {
    options.decay = reader.number("decay", 0.9, 0, kMaxAverageDecay, "of the moving average of gradients");
  } else if (options.kind == MemoryKind::kDgc) {
    options.decay =
        reader.number("momentum", 0.9, 0, kMaxAverageDecay, "what is left of the velocity in the next step");
    options.nesterov = reader.flag("nesterov", false, "add the velocity that the next step would begin with");
  } else if (options.kind == MemoryKind::kLoco) {
    options.decay = reader.number("decay", 0.8, 0, kMaxAverageDecay, "of the moving average of residuals");
    options.reset = reader.integer("reset", 1024, 0, kMaxReset,
                                   "the residual counts as 0 in steps that are multiples of it; 0: never");
  } else if (options.kind == MemoryKind::kEf21) {
    options.decay = reader.number("decay", 0, 0, kMaxAverageDecay, "of the moving average of gradients");
  }
  reader.finish();
  return {options, reader.canonical()};
}

}  // namespace

MemoryOptions parse_memory(std::string_view spec) { return read(parse_codec_spec(spec)).first; }

double memory_bytes(const MemoryOptions& options) {
  constexpr double kFloat = sizeof(float);
  switch (options.kind) {
    case MemoryKind::kNone:
      return 0;
    case MemoryKind::kDgc:
      return 4 * kFloat;
    case MemoryKind::kLoco:
      return kFloat * kResidualBlockWords / kResidualBlock + kFloat;
    case MemoryKind::kEf21:
      return (options.decay > 0 ? 4 : 2) * kFloat;
    default:
      return 2 * kFloat;
  }
}

double shared_memory_bytes(const MemoryOptions& options) {
  return options.kind == MemoryKind::kEf21 ? 2 * sizeof(float) : 0;
}

std::string canonical_memory(std::string_view spec) { return to_string(read(parse_codec_spec(spec)).second); }

}  // namespace terngrad
