// PartExchange: the exchange of some tensors of a step; a step consists of one or more parts.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/route/exchange_report.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

class CodecPlan;
class SharedState;
class Layout;
class NonfiniteFlags;
class PartClock;
class Round;
class Stream;
struct MemoryUpdate;
struct CompressedAllReduceOptions;
struct ExchangePeers;
struct WorkerRange;

/// Exchanges one part (set of tensors) of a step. All ranks call it for the same parts in the same order. On the CPU a
/// call has done its work when it returns. On a GPU it submits work to the stream without waiting, unless a codec goes
/// through the host; the calls of a step may use different streams if the caller orders their work one after the other;
/// and after a first run with the same tables, a step can be captured into a graph.
class PartExchange {
 public:
  virtual ~PartExchange() = default;

  /// CompressedAllReduce::exchange for one part of a step, with tables of its tensors. The caller begins the step for
  /// all parts (NonfiniteFlags::begin_step), and applies the policy about non-finite tensors once all are done.
  /// @param step  keys the random draws, and resets a memory of kLoco; on a GPU they are read from its memory if
  /// `on_device` is set
  virtual void run(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step,
                   Stream& stream, PartClock& clock) = 0;
  /// Bytes of the last run. On a GPU they are the same in every step, because payloads have fixed places: scalers and
  /// payloads travel without headers, and a payload counts with its reserved size.
  virtual ExchangeBytes bytes() const = 0;
  /// CompressedAllReduce::decode_local; decodes on the host, which waits for the stream. @param out  host memory
  virtual float decode_local(int local_worker, int segment, std::span<float> out, Stream& stream) = 0;
  /// Coder::update_memory for every tensor of the last run; a step that is to be dropped changes nothing.
  virtual void update_memory(const MemoryUpdate& what, std::span<const TensorTable> encoded,
                             std::span<const TensorTable> kept, Stream& stream) = 0;
  /// Updates the state that is equal on all ranks, unless the step is to be dropped.
  virtual void commit(Stream& stream) = 0;
  /// The rounds of messages that it consists of; none if the communication library adds the gradients.
  virtual std::vector<const Round*> rounds() const = 0;
};

/// Arguments that all parts of a step share.
struct PartContext {
  const ExchangePeers& peers;
  const CompressedAllReduceOptions& options;
  const Stream& stream;   // of the memory of the gradients
  NonfiniteFlags& flags;  // as the state below, of all tensors of the step; must outlive the parts
  SharedState& shared;
  /// False: NaN and infinity are not looked for, and travel on; for codec fp32.
  bool finds_nonfinite = true;
  /// True: the mean is not yet the result (MeanEstimate), and the caller checks that for overflow.
  bool estimates_mean = false;
};

/// Makes a Round, a LowRankRound if the plan has low-rank tensors, or a VendorRound if the options have a vendor_type;
/// on a rank that takes no part (ExchangePeers::takes_part), an exchange that moves nothing.
/// @param plan     of the layout's tensors
/// @param numbers  indices of these tensors in the layout of all tensors; empty: all
/// @throws InvalidArgument and NotSupported as the three classes
std::unique_ptr<PartExchange> make_part_exchange(const Layout& layout, CodecPlan plan, const PartContext& context,
                                                 std::vector<int> numbers);

/// Checks arguments of PartExchange::run. @throws InvalidArgument for another number of gradients than local workers,
/// or a mean that is not float32
void require_tables(std::span<const TensorTable> gradients, const TensorTable& mean, const WorkerRange& workers);
/// Checks arguments of PartExchange::decode_local. @throws InvalidArgument for a worker of another process, no tensor
/// of the layout, or another number of elements than it has
void require_decodable(const Layout& layout, const WorkerRange& workers, int local_worker, int segment,
                       std::span<const float> out);

}  // namespace terngrad
