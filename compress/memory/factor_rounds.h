// FactorRounds: what a process works out between the messages of an exchange of tensors of low rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codec/memory_update.h"
#include "compress/memory/factor_state.h"
#include "compress/plan/low_rank_rounds.h"
#include "kernels/factors/factor_steps.h"
#include "kernels/factors/low_rank.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// A step of PowerSGD (compress/codecs/powersgd_codec.h) for the tensors of a plan that are of low rank, in the memory
/// of one device and with the same bits on each:
///
///   begin             Q from the step before or drawn, and P_k = M_k Q of each local worker k
///   (first round)     P = mean of P_k, which the caller exchanges, in tables that hold all other tensors too
///   turn              P = orthonormal(P), and Q_k = M_k^T P
///   (second round)    Q = mean of Q_k, which the caller exchanges
///   write_mean        P Q^T
///   keep, commit      what worker k left out, M_k - P Q_k^T, and Q for the next step
///
/// P and both factors of workers are rounded to what they travel as (LowRankForm::factors). Of a worker's tensor that
/// is not finite both count as zeros, as does a factor that leaves the range of its type; nothing is kept of it.
/// Gradients are of float32. On a GPU all but decode can be captured, having run once with the same tables.
class FactorRounds {
 public:
  /// @param plan     of the layout's tensors
  /// @param factors  of all tensors of the step, whose device this is for; outlives this
  FactorRounds(const Layout& layout, const CodecPlan& plan, int num_workers, int num_local_workers,
               FactorState& factors);

  const LowRankRounds& rounds() const { return rounds_; }
  /// Whether a tensor of the layout is of low rank.
  bool has(int segment) const { return find(segment) >= 0; }

  /// @param seed  of the draws. @returns tables of rounds().first: P_k in place of tensors of low rank
  std::vector<TensorTable> begin(std::span<const TensorTable> gradients, std::uint64_t seed, const DeviceStep& step,
                                 Stream& stream);
  /// Tables of rounds().first: of some tables of the layout, with factors of local workers in place of tensors of low
  /// rank.
  std::vector<TensorTable> first_tables(std::span<const TensorTable> tables);
  /// The same with memory in place of tensors of low rank that a Coder may write what it keeps to, and nobody reads.
  std::vector<TensorTable> first_kept(std::span<const TensorTable> tables);
  /// A table of rounds().first, to take P beside the mean of all others.
  TensorTable first_mean(const TensorTable& mean);
  /// @param gradients  those of begin. @returns tables of rounds().second: Q_k
  std::vector<TensorTable> turn(std::span<const TensorTable> gradients, Stream& stream);
  /// The table of rounds().second that takes Q.
  TensorTable second_mean();
  /// The mean of tensors of low rank. A Q that is not finite, of a step that is to be dropped, counts as zeros, so that
  /// it is reported once.
  void write_mean(const TensorTable& mean, Stream& stream);

  /// Coder::keep of tensors of low rank, of the step that turn was called for last.
  /// @param skip  [1] in the device's memory, or null: not 0, and nothing is kept
  void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                     const std::uint32_t* skip, Stream& stream);
  /// Q for the next step. @param skip  as keep
  void commit(const std::uint32_t* skip, Stream& stream);

  /// What a local worker sent of a tensor of low rank, of the last step; waits for the stream.
  /// @param out  host memory
  void decode(int local_worker, int segment, std::span<float> out, Stream& stream);

 private:
  struct Tensor {
    int segment = 0;  // in the layout, and in that of the first round
    FactorSizes sizes;
    ElementType factors = ElementType::kFloat32;
    std::int64_t draw_offset = 0;
    float* kept = nullptr;      // in the state, or null: drawn in each step
    std::int64_t p_offset = 0;  // in buffers of P^T and Q^T
    std::int64_t q_offset = 0;
    std::int64_t num_q() const { return sizes.rank * sizes.columns; }
    std::int64_t num_p() const { return sizes.rank * sizes.rows; }
  };
  int find(int segment) const;
  /// [1] NaN: the worker's tensor is not finite, or its factors are not.
  float* flag(std::size_t worker, std::size_t tensor) { return flags_.data() + worker * tensors_.size() + tensor; }
  FactorTask task_of(const Tensor& tensor, const TensorTable& gradient, float* p, float* q) const;
  TensorTable with_factors(const TensorTable& whole, float* p) const;
  TensorTable table_of_q(float* q) const;

  Layout layout_;
  LowRankRounds rounds_;
  std::vector<Tensor> tensors_;
  LowRankProducts products_, mean_products_, kept_products_;
  FactorSteps steps_, mean_steps_;
  Buffer<float> begun_q_, mean_p_, mean_q_;
  std::vector<Buffer<float>> own_p_, own_q_;  // one per local worker
  std::vector<Buffer<float>> kept_p_;         // of factors that a codec rounds
  Buffer<float> flags_, mean_flags_;
  // The tables of a step, rebuilt in each.
  std::vector<FactorTask> products_of_step_;
  std::vector<LowRankTask> written_;
  std::vector<FactorRounding> roundings_;
};

}  // namespace terngrad
