// PartExchange: the exchange of some tensors of a step; a step consists of one or more parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/exchange/gradient_exchange.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

class CodecPlan;
class CompressedAllReduce;
class FactorState;
class Layout;
enum class MemoryUpdate;
struct CompressedAllReduceOptions;
struct NonfiniteTensors;

/// Exchanges one part (set of tensors) of a step. All ranks call it for the same parts in the same order.
class PartExchange {
 public:
  virtual ~PartExchange() = default;

  /// GradientExchange::exchange for one part of a step. Non-finite tensors are added to `found`, not to the report; the
  /// caller applies the policy once all parts are done.
  virtual ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                       std::uint64_t step, NonfiniteTensors& found) = 0;
  /// GradientExchange::decode_local.
  virtual float decode_local(int local_worker, int segment, std::span<float> out) = 0;
  /// Coder::update_memory for every tensor of the last step, which was not dropped.
  virtual void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                             std::span<const TensorTable> kept) = 0;
  /// Ends a step that was not dropped: updates the state that is equal on all ranks.
  virtual void commit() = 0;
  /// The exchanges that send its messages.
  virtual std::vector<const CompressedAllReduce*> exchanges() const = 0;
};

/// Makes a CompressedAllReduce, or a LowRankAllReduce if the plan has low-rank tensors.
/// @param plan     of the layout's tensors
/// @param factors  state of all tensors, including those of the step's other parts
/// @param numbers  indices of these tensors in the full layout; empty: all
/// @throws InvalidArgument as the two classes
std::unique_ptr<PartExchange> make_part_exchange(const Layout& layout, CodecPlan plan, const WorkerGroup& workers,
                                                 const CompressedAllReduceOptions& options, FactorState& factors,
                                                 std::vector<int> numbers);

}  // namespace terngrad
