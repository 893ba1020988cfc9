// DevicePartExchange: PartExchange for gradients in GPU memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "compress/comm/device_communicator.h"
#include "compress/exchange/gradient_exchange.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

class CodecPlan;
class NonfiniteFlags;
class FactorState;
class Layout;
class Stream;
enum class MemoryUpdate;
struct CompressedAllReduceOptions;
struct WorkerRange;

/// Calls submit work to a stream of the GPU without waiting, unless a codec goes through the host. The calls of a step
/// may use different streams if the caller orders their work one after the other. After a first run with the same
/// tables, a step can be captured into a graph.
class DevicePartExchange {
 public:
  virtual ~DevicePartExchange() = default;

  /// Submits the exchange of one part of a step. The caller begins the step for all parts
  /// (NonfiniteFlags::begin_step).
  /// @param step  keys the random draws; read from device memory if `on_device` is set
  virtual void submit_part(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step,
                           Stream& stream) = 0;
  /// The same on the exchange's own stream; waits for it. @returns bytes and times
  virtual ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                       std::uint64_t step) = 0;
  /// Submits Coder::update_memory for every tensor of the last submitted step; a step that is to be dropped changes
  /// nothing.
  virtual void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                             Stream& stream) = 0;
  /// Submits the update of the state that is equal on all ranks, unless the step is to be dropped.
  virtual void commit(Stream& stream) = 0;
  /// Bytes per step, nothing else. Known without the GPU, because payloads have fixed offsets: scalers and payloads
  /// travel without headers, and a payload counts with its reserved size.
  virtual ExchangeReport bytes() const = 0;
  /// GradientExchange::decode_local; decodes on the host, which waits for the stream. @param out  host memory
  virtual float decode_local(int local_worker, int segment, std::span<float> out) = 0;
  /// Names of codecs without kernels. The host encodes their gradients and waits for the stream, so steps cannot be
  /// captured.
  virtual std::vector<std::string> codecs_through_host() const = 0;
};

/// Arguments that all parts of a step share.
struct DevicePartContext {
  const WorkerRange& workers;
  const CompressedAllReduceOptions& options;
  const Stream& stream;
  std::shared_ptr<DeviceCommunicator> communicator;
  std::shared_ptr<NonfiniteFlags> nonfinite;  // shared by all parts
  FactorState& factors;                        // state of all tensors of the step; must outlive the part
};

/// Makes a DeviceAllReduce, or a DeviceLowRankAllReduce if the plan has low-rank tensors.
/// @param plan     of the layout's tensors
/// @param numbers  indices of these tensors in the full layout
/// @throws InvalidArgument and NotSupported as the two classes
std::unique_ptr<DevicePartExchange> make_device_part_exchange(const Layout& layout, CodecPlan plan,
                                                              const DevicePartContext& context,
                                                              std::vector<int> numbers);

}  // namespace terngrad
