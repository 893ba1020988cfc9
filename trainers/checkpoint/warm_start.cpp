#include "trainers/checkpoint/warm_start.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

// Throws if the checkpoint has parameters that are not in the layout, instead of ignoring them.
void require_no_others(const Checkpoint& checkpoint, const Layout& layout) {
  constexpr std::string_view kParametersPrefix = "parameters/";
  for (const TensorRecord& tensor : checkpoint.tensors()) {
    if (!tensor.name.starts_with(kParametersPrefix)) continue;
    const std::string_view name = std::string_view(tensor.name).substr(kParametersPrefix.size());
    if (std::ranges::find(layout.segments(), name, &Segment::name) != layout.segments().end()) continue;
    TERNGRAD_THROW(DataError, "checkpoint '", checkpoint.source(), "' (net ", checkpoint.state().net,
                   ") does not fit: found tensor '", tensor.name, "' ", describe_tensor(tensor.type, tensor.shape),
                   ", expected none of that name");
  }
}

/// True for tensors of the logits layer, and of layers named as auxiliary classifiers' are: `auxiliary_logits`.
bool is_of_logits(const Segment& segment) {
  const std::string_view name = segment.name;
  return segment.is_logits || name.substr(0, name.rfind('/')).ends_with("_logits");
}

}  // namespace

void warm_start(const Checkpoint& checkpoint, const Layout& layout, WarmStart what, std::span<float> parameters) {
  TERNGRAD_REQUIRE(std::cmp_equal(parameters.size(), layout.flat_elements()), "[warm_start] parameters must have ",
                   layout.flat_elements(), " elements, has ", parameters.size());
  if (what == WarmStart::kAll) checkpoint.check_matches(layout, "parameters");
  for (const Segment& segment : layout.segments()) {
    if (what == WarmStart::kNoLogits && is_of_logits(segment)) continue;
    checkpoint.read_tensor(
        "parameters", segment,
        parameters.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements)));
  }
  if (what == WarmStart::kNoLogits) require_no_others(checkpoint, layout);
}

}  // namespace terngrad
