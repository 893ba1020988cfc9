// Element-wise work of error feedback and momentum on a GPU; bench/compress/memory_bench.cpp has the CPU's.
#include "kernels/tensor/averaged_residual.h"
#include "kernels/tensor/memory_update.h"

#include "bench/elementwise.h"

namespace terngrad::bench {
namespace {

using Arrays = ElementwiseArrays;

void keep(Arrays& a, MemoryUpdateTask::Rule rule, Stream& stream) {
  const auto count = static_cast<std::int64_t>(a.gradient.span().size());
  update_memory({.encoded = a.gradient.data(),
                 .sent = a.slots[0].data(),
                 .kept = a.slots[1].data(),
                 .count = count,
                 .rule = rule},
                stream);
}

const Registration registration(__FILE__, [](Rows& rows) {
  const auto add = [&](const char* name, double bytes, int num_slots, void (*apply)(Arrays & arrays, Stream & stream)) {
    add_elementwise(rows, {.name = name, .bytes = bytes, .num_slots = num_slots, .apply = apply}, Devices::kCuda);
  };
  add("memory_compensate", 12, 2, [](Arrays& a, Stream& stream) {
    compensate({.state = a.slots[0].data(),
                .gradient = a.gradient.data(),
                .compensated = a.slots[1].data(),
                .count = a.slots[1].num_elements()},
               1.0f, 1.0f, stream);
  });
  add("memory_keep", 12, 2, [](Arrays& a, Stream& stream) { keep(a, MemoryUpdateTask::Rule::kSubtract, stream); });
  add("memory_accumulate", 20, 4, [](Arrays& a, Stream& stream) {
    accumulate({.residual = a.slots[0].data(),
                .velocity = a.slots[1].data(),
                .gradient = a.gradient.data(),
                .next_velocity = a.slots[2].data(),
                .compensated = a.slots[3].data(),
                .count = a.slots[3].num_elements()},
               0.9f, /*nesterov=*/false, stream);
  });
  // A residual in 8 bits has 17 words for 64 elements.
  add("memory_compensate_loco", 8 + 68.0 / 64, 2, [](Arrays& a, Stream& stream) {
    const AveragedCompensateTask task{.state = a.slots[0].data(),
                                      .gradient = a.gradient.data(),
                                      .compensated = a.slots[1].data(),
                                      .count = a.slots[1].num_elements()};
    compensate(task, {}, stream);
  });
  add("memory_keep_loco", 8 + 2 * 68.0 / 64, 2, [](Arrays& a, Stream& stream) {
    update_residual({.encoded = a.gradient.data(),
                     .sent = a.slots[0].data(),
                     .state = a.slots[1].data(),
                     .count = a.slots[0].num_elements()},
                    {.decay = 0.8f, .weight = 0.2f}, stream);
  });
  add("memory_mask", 12, 2, [](Arrays& a, Stream& stream) { keep(a, MemoryUpdateTask::Rule::kMask, stream); });
});

}  // namespace
}  // namespace terngrad::bench
