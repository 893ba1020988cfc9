// The list of all subjects; one function per file, named after what it measures.
#pragma once

#include <string>

namespace terngrad::bench {

void register_statistics();
void register_ternarize();
void register_levels();
void register_rotate();
void register_fp8();
void register_exponents();
void register_signs();
void register_low_rank();
void register_top_k();
void register_encode();
void register_aggregate();
void register_votes();
void register_unpack();
void register_optimizer();
void register_transform();
void register_conversion();
void register_crc32c();
void register_exchange();
void register_memory();
#ifdef TERNGRAD_BENCH_TRAINERS
void register_augmentation();
void register_preprocessing();
/// The JPEG and PNG files that preprocessing is measured on; without a folder it makes some up. False if there are
/// none.
bool set_image_folder(const std::string& folder);
void register_training();
#endif

inline void register_all() {
  register_statistics();
  register_ternarize();
  register_levels();
  register_rotate();
  register_fp8();
  register_exponents();
  register_signs();
  register_low_rank();
  register_top_k();
  register_encode();
  register_aggregate();
  register_votes();
  register_unpack();
  register_optimizer();
  register_transform();
  register_conversion();
  register_crc32c();
  register_exchange();
  register_memory();
#ifdef TERNGRAD_BENCH_TRAINERS
  register_augmentation();
  register_preprocessing();
  register_training();
#endif
}

}  // namespace terngrad::bench
