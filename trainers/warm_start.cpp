#include "trainers/warm_start.h"

#include <utility>

#include "kernels/errors.h"

namespace terngrad {

void warm_start(const Checkpoint& checkpoint, const Layout& layout, WarmStart what, std::span<float> parameters) {
  TERNGRAD_REQUIRE(std::cmp_equal(parameters.size(), layout.flat_elements()), "[warm_start] parameters must have ",
                   layout.flat_elements(), " elements, has ", parameters.size());
  if (what == WarmStart::kAll) checkpoint.check_matches(layout, "parameters");
  for (const Segment& segment : layout.segments()) {
    if (what == WarmStart::kNoLogits && segment.is_logits) continue;
    checkpoint.read_tensor(
        "parameters", segment,
        parameters.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements)));
  }
}

}  // namespace terngrad
