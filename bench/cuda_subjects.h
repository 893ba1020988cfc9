// The list of all subjects on a GPU; one function per file, named after what it measures.
#pragma once

#include "kernels/runtime/device.h"

namespace terngrad::bench {

void register_cuda_statistics();
void register_cuda_ternarize();
void register_cuda_levels();
void register_cuda_rotate();
void register_cuda_fp8();
void register_cuda_exponents();
void register_cuda_signs();
void register_cuda_top_k();
void register_cuda_low_rank();
void register_cuda_encode();
void register_cuda_aggregate();
void register_cuda_votes();
void register_cuda_tree_sum();
void register_cuda_unpack();
void register_cuda_optimizer();
void register_cuda_transform();
void register_cuda_memory_update();
void register_cuda_conversion();
#ifdef TERNGRAD_BENCH_CUDA
void register_cuda_sort();  // not in the emulation, which CUB cannot be compiled for
#endif
#ifdef TERNGRAD_BENCH_TRAINERS
void register_cuda_crop();
void register_cuda_train_step();
void register_cuda_thin_product();
#endif

/// Registers nothing on a machine without a GPU.
inline void register_all_cuda() {
  if (num_cuda_devices() == 0) return;
  register_cuda_statistics();
  register_cuda_ternarize();
  register_cuda_levels();
  register_cuda_rotate();
  register_cuda_fp8();
  register_cuda_exponents();
  register_cuda_signs();
  register_cuda_top_k();
  register_cuda_low_rank();
  register_cuda_encode();
  register_cuda_aggregate();
  register_cuda_votes();
  register_cuda_tree_sum();
  register_cuda_unpack();
  register_cuda_optimizer();
  register_cuda_transform();
  register_cuda_memory_update();
  register_cuda_conversion();
#ifdef TERNGRAD_BENCH_CUDA
  register_cuda_sort();
#endif
#ifdef TERNGRAD_BENCH_TRAINERS
  register_cuda_crop();
  register_cuda_train_step();
  register_cuda_thin_product();
#endif
}

}  // namespace terngrad::bench
