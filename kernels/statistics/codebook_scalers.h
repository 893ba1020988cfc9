// Scalers of runs of elements that a codebook quantizes: EDEN's, which make decoded runs unbiased, or of least error.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/runtime/device.h"
#include "kernels/statistics/codebook.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

/// Scaler S of a run x with nearest levels q.
enum class CodebookScale : std::uint8_t {
  kUnbiased,  // |x|^2 / <x, q>: <x, S q> = |x|^2, so S q is unbiased if x is uniformly rotated
  kLeast,     // <x, q> / |q|^2, which minimizes |x - S q|
};

namespace cuda {
class CodebookScalerRunner;
}

/// Computes the unit and the scaler of many runs, whose elements leave the main memory once. Use each object with one
/// stream only.
///
/// u = local_scaler(x, ScalerRule::kRms) with the codebook's unit as factor. Element i has the level sign(x_i) v_k,
/// with k the number of thresholds t for which |x_i| >= fl(t u). The products fl(|x_i| v_k), and for kLeast the squares
/// of v_k, are added in the tree of kernels/statistics/statistics.h; S is computed in float64 and rounded to float32. u
/// and S are 0 if u is below kMinScaler, and the canonical NaN if an element or the sum of products is not finite, or u
/// or S is above kMaxScaler.
/// Source of the scalers: Vargaftik et al., "EDEN: Communication-Efficient and Robust Distributed Mean Estimation for
/// Federated Learning", ICML 2022 (kUnbiased); "DRIVE", NeurIPS 2021, for two levels.
class CodebookScalerPlan {
 public:
  /// @param runs  any slices of at most kChunkElements; an empty one gets 0
  /// @throws InvalidArgument for a longer slice
  CodebookScalerPlan(std::vector<Slice> runs, const Codebook& codebook, CodebookScale scale,
                     Device device = Device::cpu());

  /// Bit-equal on every backend, for any alignment, number of threads and SIMD width. Asynchronous on a GPU, where it
  /// allocates nothing once the plan has run with these tables.
  /// @param workers  float32 tables, finite or not; in device memory on a GPU
  /// @param units, scalers  [workers.size() * runs] out, worker-major; device memory on a GPU
  /// @throws InvalidArgument if an output has another size, a table another type, or the stream another device
  void run(std::span<const TensorTable> workers, std::span<float> units, std::span<float> scalers, Stream& stream);

 private:
  std::vector<Slice> runs_;
  Codebook codebook_;
  CodebookScale scale_;
  Device device_;
  std::shared_ptr<cuda::CodebookScalerRunner> cuda_;
};

namespace cpu {
/// out[i] = v_k of element i, times |x_i| if `is_product`.
void nearest_levels(const float* values, std::int64_t count, const Codebook& codebook, float unit, bool is_product,
                    float* out);
}  // namespace cpu

}  // namespace terngrad
