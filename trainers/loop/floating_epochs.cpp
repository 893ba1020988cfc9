#include "trainers/loop/floating_epochs.h"

#include "kernels/runtime/errors.h"

namespace terngrad {

bool is_floating_step(std::uint64_t step, std::int64_t batch_size, std::int64_t num_examples, std::int64_t period) {
  TERNGRAD_REQUIRE(batch_size >= 1 && num_examples >= 1 && period >= 1,
                   "[floating epochs] batch size, number of examples and period must be at least 1, got ", batch_size,
                   ", ", num_examples, " and ", period);
  // 40 bits of step times 31 bits of batch do not fit 64 bits.
  using Wide = unsigned __int128;
  const Wide epoch = static_cast<Wide>(step) * static_cast<Wide>(batch_size) / static_cast<Wide>(num_examples);
  return epoch % static_cast<Wide>(period) == static_cast<Wide>(period - 1);
}

}  // namespace terngrad
