#include "kernels/optimizer/optimizer.h"

#include "bench/cuda_elementwise.h"
#include "bench/cuda_subjects.h"

namespace terngrad::bench {

void register_cuda_optimizer() {
  using Arrays = ElementwiseArrays;
  // Weights and what else an update changes are slots. Bytes: each array read, and written where it changes.
  for (const ElementwiseOperation& operation : {
           ElementwiseOperation{.name = "update_gd",
          .num_slots = 1,
          .bytes = 12,
          .apply = [](Arrays&a, Stream&stream) { update_gd(a.slots[0].span(), a.gradient.span(), 0.1f, stream); }},
           ElementwiseOperation{.name = "update_momentum",
           .num_slots = 2,
           .bytes = 20,
           .apply =
                                    [](Arrays&a, Stream&stream) {
                                      update_momentum(a.slots[0].span(), a.slots[1].span(), a.gradient.span(), 0.1f,
                                                      0.9f, stream);
                                    }},
           ElementwiseOperation{.name = "update_adam",
           .num_slots = 3,
           .bytes = 28,
           .apply =
                                    [](Arrays&a, Stream&stream) {
                                      update_adam(a.slots[0].span(), a.slots[1].span(), a.slots[2].span(),
                                                  a.gradient.span(), 0.1f, {}, stream);
                                    }},
           ElementwiseOperation{.name = "update_rmsprop",
           .num_slots = 3,
           .bytes = 28,
           .apply =
                                    [](Arrays&a, Stream&stream) {
                                      update_rmsprop(a.slots[0].span(), a.slots[1].span(), a.slots[2].span(),
                                                     a.gradient.span(), 0.1f, {}, stream);
                                    }},
           ElementwiseOperation{.name = "update_ema",
           .num_slots = 1,
           .bytes = 12,
           .apply = [](Arrays&a, Stream&stream) { update_ema(a.slots[0].span(), a.gradient.span(), 0.9f, stream); }},
           ElementwiseOperation{.name = "add_weight_decay",
           .num_slots = 1,
           .bytes = 12,
           .apply = [](Arrays&a,
                       Stream&stream) { add_weight_decay(a.slots[0].span(), a.gradient.span(), 0.1f, stream); }},
       }) {
    register_cuda_elementwise(operation);
  }
}

}  // namespace terngrad::bench
