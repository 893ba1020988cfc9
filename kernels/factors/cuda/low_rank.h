// Products with thin factors on a GPU: the GPU part of LowRankProducts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "kernels/factors/low_rank.h"

namespace terngrad::cuda {

/// Functions of LowRankProducts, which has checked the arguments.
class LowRankRunner {
 public:
  virtual ~LowRankRunner() = default;
  virtual void times_columns(std::span<const FactorTask> tasks, Stream& stream) = 0;
  virtual void times_rows(std::span<const FactorTask> tasks, Stream& stream) = 0;
  virtual void orthonormalize(std::span<const FactorTask> tasks, Stream& stream) = 0;
  virtual void write_products(std::span<const LowRankTask> tasks, const std::uint32_t* skip, Stream& stream) = 0;
};

std::shared_ptr<LowRankRunner> make_low_rank_runner(const Device& device);

}  // namespace terngrad::cuda
