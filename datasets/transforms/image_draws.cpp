#include "datasets/transforms/image_draws.h"

#include "kernels/runtime/errors.h"

namespace terngrad {

ImageDraws::ImageDraws(const ExampleVisit& visit, std::int64_t index)
    : key_{.seed = visit.seed, .step = visit.epoch, .worker = 0, .purpose = DrawPurpose::kAugmentation},
      first_block_(static_cast<std::uint64_t>(index) * kImageDrawBlocks) {
  TERNGRAD_REQUIRE(index >= 0 && index < kMaxDrawnExamples, "[ImageDraws] index must be in [0, 2^41), got ", index);
  TERNGRAD_REQUIRE(visit.epoch >> 40 == 0, "[ImageDraws] epoch must be below 2^40, got ", visit.epoch);
}

}  // namespace terngrad
