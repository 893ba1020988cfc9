// FactorRounds: local computations of an exchange of low-rank tensors, between its messages.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "compress/codec/memory_update.h"
#include "compress/memory/shared_state.h"
#include "compress/plan/low_rank_rounds.h"
#include "kernels/factors/factor_steps.h"
#include "kernels/factors/low_rank.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/layout.h"

namespace terngrad {

/// A step of PowerSGD (compress/codecs/powersgd_codec.h) for the low-rank tensors of a plan, in the memory of one
/// device and with the same bits on each:
///
///   begin             Q from the previous step or drawn, and P_k = M_k Q of each local worker k
///   (first round)     P = mean of P_k: exchanged by the caller, in tables that also hold all other tensors
///   turn              P = orthonormal(P), and Q_k = M_k^T P
///   (second round)    Q = mean of Q_k: exchanged by the caller
///   write_mean        P Q^T
///   update_memory     residual of worker k, M_k - P Q_k^T
///   commit            Q for the next step
///
/// P, P_k and Q_k are rounded to the type in which they travel (LowRankForm::factors). Both factors of a worker's
/// non-finite tensor count as zeros, as does a factor that overflows its type; memories keep their state of such a
/// tensor. Gradients must be float32. On a GPU all calls except decode can be captured, after a first run with the same
/// tables.
class FactorRounds {
 public:
  /// @param plan     of the layout's tensors
  /// @param factors  state of all tensors of the step, on the device to compute on; must outlive this
  FactorRounds(const Layout& layout, const CodecPlan& plan, int num_workers, int num_local_workers,
               SharedState& factors);

  const LowRankRounds& rounds() const { return rounds_; }
  /// True if a tensor of the layout is of low rank.
  bool has(int segment) const { return find(segment) >= 0; }

  /// @param seed  keys the draws. @returns tables of rounds().first, with P_k in place of low-rank tensors
  std::vector<TensorTable> begin(std::span<const TensorTable> gradients, std::uint64_t seed, const DeviceStep& step,
                                 Stream& stream);
  /// Tables of rounds().first: the given tables of the layout, with local workers' P_k in place of low-rank tensors.
  std::vector<TensorTable> first_tables(std::span<const TensorTable> tables);
  /// The same with scratch memory in place of low-rank tensors, as an unused output of Coder::update_memory.
  std::vector<TensorTable> first_kept(std::span<const TensorTable> tables);
  /// A table of rounds().first: `mean` with a buffer for P in place of low-rank tensors.
  TensorTable first_mean(const TensorTable& mean);
  /// @param gradients  as passed to begin. @returns tables of rounds().second, with Q_k
  std::vector<TensorTable> turn(std::span<const TensorTable> gradients, Stream& stream);
  /// The table of rounds().second whose buffers receive Q.
  TensorTable second_mean();
  /// Writes the mean of low-rank tensors. A non-finite Q, of a step that is to be dropped, counts as zeros, so that the
  /// tensor is not reported twice.
  void write_mean(const TensorTable& mean, Stream& stream);

  /// Coder::update_memory for low-rank tensors of the last step, after turn.
  /// @param skip  null, or [1] in the device's memory: nothing is updated if it is nonzero
  void update_memory(const MemoryUpdate& what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                     const std::uint32_t* skip, Stream& stream);
  /// Stores Q for the next step. @param skip  as for update_memory
  void commit(const std::uint32_t* skip, Stream& stream);

  /// Decodes a local worker's message of a low-rank tensor in the last step; waits for the stream.
  /// @param out  host memory
  void decode(int local_worker, int segment, std::span<float> out, Stream& stream);

 private:
  struct Tensor {
    int segment = 0;  // in the layout, and in that of the first round
    FactorSizes sizes;
    ElementType factors = ElementType::kFloat32;
    std::int64_t draw_offset = 0;
    float* kept = nullptr;      // factor Q in SharedState; null: drawn in each step
    std::int64_t p_offset = 0;  // offset in buffers of P^T; next: of Q^T
    std::int64_t q_offset = 0;
    std::int64_t num_q() const { return sizes.rank * sizes.columns; }
    std::int64_t num_p() const { return sizes.rank * sizes.rows; }
  };
  int find(int segment) const;
  /// [1] NaN if the worker's tensor or its factors are not finite.
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
  std::vector<Buffer<float>> kept_p_;         // unused output of update_memory, for factors that a codec rounds
  Buffer<float> flags_, mean_flags_;
  // Task tables, rebuilt in each step.
  std::vector<FactorTask> products_of_step_;
  std::vector<LowRankTask> written_;
  std::vector<FactorRounding> roundings_;
};

}  // namespace terngrad
