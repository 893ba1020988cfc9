// PartExchange: the exchange of some tensors of a step, in parts of which a step is put together.
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
class NonfiniteTensors;
enum class MemoryUpdate;
struct CompressedAllReduceOptions;

class PartExchange {
 public:
  virtual ~PartExchange() = default;

  /// GradientExchange::exchange, for one of the parts of a step: what is not finite is added to `found` for the caller
  /// to apply the policy to, when all parts are done, and is not in the report.
  virtual ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                       std::uint64_t step, NonfiniteTensors& found) = 0;
  /// GradientExchange::decode_local.
  virtual float decode_local(int local_worker, int segment, std::span<float> out) = 0;
  /// Coder::keep of every tensor whose codec loses something, of the last step, which was not dropped.
  virtual void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded,
                             std::span<const TensorTable> kept) = 0;
  /// The last step is settled and was not dropped: what all ranks keep alike of it is kept.
  virtual void commit() = 0;
  /// Those that send its messages.
  virtual std::vector<const CompressedAllReduce*> exchanges() const = 0;
};

/// A CompressedAllReduce, or where the plan has tensors of low rank a LowRankAllReduce.
/// @param plan     of the layout's tensors
/// @param factors  of all tensors, those of a step's other parts too
/// @throws InvalidArgument as these
std::unique_ptr<PartExchange> make_part_exchange(const Layout& layout, CodecPlan plan, const WorkerGroup& workers,
                                                 const CompressedAllReduceOptions& options, FactorState& factors);

}  // namespace terngrad
