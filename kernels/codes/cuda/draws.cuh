// Draws inside kernels: kernels/random/philox.h, with everything that is the same for all threads precomputed by the
// host.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/codes/rounding.h"
#include "kernels/random/philox.h"
#include "kernels/random/strata.h"

namespace terngrad::cuda {

/// A stream of draws as a kernel parameter.
struct DrawStream {
  std::uint32_t key0[10];  // keys of the ten rounds
  std::uint32_t key1[10];
  std::uint32_t worker;
  std::uint32_t purpose;
  std::uint64_t step;
  const std::uint64_t* device_step;  // null, or address of the step
};

/// Precomputes a stream for kernels. @param device_step  null, or address of the step, which replaces key.step
inline DrawStream make_draw_stream(const DrawKey& key, const std::uint64_t* device_step) {
  DrawStream stream{};
  auto key0 = static_cast<std::uint32_t>(key.seed);
  auto key1 = static_cast<std::uint32_t>(key.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    stream.key0[round] = key0;
    stream.key1[round] = key1;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  stream.worker = key.worker;
  stream.purpose = static_cast<std::uint32_t>(key.purpose);
  stream.step = key.step;
  stream.device_step = device_step;
  return stream;
}

/// The worker whose draws a task takes, relative to its stream's, and what they become for the task's own worker.
struct TaskDraws {
  std::uint32_t worker;
  Stratum stratum;         // kStratified only
  std::uint32_t reserved;  // zero, so that equal tasks are equal bytes
};

/// @param worker  as in TernarizeTask
inline TaskDraws task_draws(Rounding rounding, const DrawKey& key, std::uint32_t worker, int num_workers) {
  if (rounding != Rounding::kStratified) return {worker, {}, 0};
  return {0u - key.worker, stratum_of(key.worker + worker, static_cast<std::uint32_t>(num_workers)), 0};
}

__device__ inline std::uint64_t step_of(const DrawStream& stream) {
  return stream.device_step == nullptr ? stream.step : *stream.device_step;
}

/// 128 random bits: draw_block() of kernels/random/philox.h for block `block` of worker `stream.worker + worker`.
__device__ inline uint4 draw_block(const DrawStream& stream, std::uint64_t step, std::uint32_t worker,
                                   std::uint32_t purpose, std::uint64_t block) {
  uint4 c = {static_cast<std::uint32_t>(block), stream.worker + worker, static_cast<std::uint32_t>(step),
             static_cast<std::uint32_t>(block >> 32 & 0xffff) | static_cast<std::uint32_t>(step >> 32 & 0xff) << 16 |
                 purpose << 24};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c.x;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c.z;
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c.y ^ stream.key0[round], static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c.w ^ stream.key1[round], static_cast<std::uint32_t>(p0)};
  }
  return c;
}

/// Stratum::draw16 of eight draws for positive elements.
__device__ inline uint4 draws_of(const Stratum& stratum, const uint4& shared) {
  const std::uint32_t mirror = 0u - stratum.mirrored;
  const auto moved = [&](std::uint32_t word) {
    const std::uint32_t low = (word + stratum.offset) & 0xffffu;
    return (((word & 0xffff0000u) + (stratum.offset << 16)) | low) ^ mirror;
  };
  return {moved(shared.x), moved(shared.y), moved(shared.z), moved(shared.w)};
}

/// 32 random bits for draw `index`.
__device__ inline std::uint32_t draw32(const DrawStream& stream, std::uint64_t step, std::uint32_t worker,
                                       std::uint32_t purpose, std::uint64_t index) {
  const uint4 words = draw_block(stream, step, worker, purpose, index / 4);
  const unsigned word = static_cast<unsigned>(index % 4);
  return word == 0 ? words.x : word == 1 ? words.y : word == 2 ? words.z : words.w;
}

}  // namespace terngrad::cuda
