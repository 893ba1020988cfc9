#include "kernels/tensor/memory_update.h"

#include "bench/cuda_elementwise.h"
#include "bench/cuda_subjects.h"

namespace terngrad::bench {

void register_cuda_memory_update() {
  using Arrays = ElementwiseArrays;
  register_cuda_elementwise(
      {.name = "memory_compensate", .num_slots = 2, .bytes = 12, .apply = [](Arrays& a, Stream& stream) {
         compensate({.state = a.slots[0].data(),
                     .gradient = a.gradient.data(),
                     .compensated = a.slots[1].data(),
                     .count = a.gradient.num_elements()},
                    1.0f, 1.0f, stream);
       }});
  register_cuda_elementwise(
      {.name = "memory_keep", .num_slots = 2, .bytes = 12, .apply = [](Arrays& a, Stream& stream) {
         update_memory({.encoded = a.gradient.data(),
                        .sent = a.slots[0].data(),
                        .kept = a.slots[1].data(),
                        .count = a.gradient.num_elements()},
                       stream);
       }});
  register_cuda_elementwise(
      {.name = "memory_accumulate", .num_slots = 4, .bytes = 20, .apply = [](Arrays& a, Stream& stream) {
         accumulate({.residual = a.slots[0].data(),
                     .velocity = a.slots[1].data(),
                     .gradient = a.gradient.data(),
                     .next_velocity = a.slots[2].data(),
                     .compensated = a.slots[3].data(),
                     .count = a.gradient.num_elements()},
                    0.9f, /*nesterov=*/false, stream);
       }});
  register_cuda_elementwise(
      {.name = "memory_mask", .num_slots = 2, .bytes = 12, .apply = [](Arrays& a, Stream& stream) {
         update_memory({.encoded = a.gradient.data(),
                        .sent = a.slots[0].data(),
                        .kept = a.slots[1].data(),
                        .count = a.gradient.num_elements(),
                        .masks = true},
                       stream);
       }});
}

}  // namespace terngrad::bench
