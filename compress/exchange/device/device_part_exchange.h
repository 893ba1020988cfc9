// DevicePartExchange: PartExchange for gradients in a GPU's memory.
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
class DeviceNonfinite;
class FactorState;
class Layout;
class Stream;
enum class MemoryUpdate;
struct CompressedAllReduceOptions;
struct WorkerRange;

/// Calls submit work to a stream of the GPU and wait for nothing, unless a codec goes through the host. Those of a step
/// may be given different streams, if the caller sees to it that they come one after the other. Having run once with
/// the same tables, a step can be captured into a graph.
class DevicePartExchange {
 public:
  virtual ~DevicePartExchange() = default;

  /// Submits the exchange of a part of a step: the caller that has all parts begins the step (DeviceNonfinite).
  /// @param step  that keys the draws, on the device where `on_device` is set
  virtual void submit_part(std::span<const TensorTable> gradients, const TensorTable& mean, const DeviceStep& step,
                           Stream& stream) = 0;
  /// The same on the exchange's own stream, waited for. @returns bytes and times
  virtual ExchangeReport exchange_part(std::span<const TensorTable> gradients, const TensorTable& mean,
                                       std::uint64_t step) = 0;
  /// Submits Coder::keep of every tensor whose codec loses something, of the step that was submitted last: nothing is
  /// kept of a step that is to be dropped.
  virtual void update_memory(MemoryUpdate what, std::span<const TensorTable> encoded, std::span<const TensorTable> kept,
                             Stream& stream) = 0;
  /// Submits that what all ranks keep alike of the step is kept, unless it is to be dropped.
  virtual void commit(Stream& stream) = 0;
  /// The bytes of every step, and nothing else: payloads have fixed places, so they are known without asking the GPU.
  /// Of scalers and payloads, which travel without headers; a payload counts as the room that it has.
  virtual ExchangeReport bytes() const = 0;
  /// GradientExchange::decode_local. Decodes on the host, which waits. @param out  host memory
  virtual float decode_local(int local_worker, int segment, std::span<float> out) = 0;
  /// The names of codecs that have no kernels: their gradients go through the host, which waits for the stream, so that
  /// steps cannot be captured.
  virtual std::vector<std::string> codecs_through_host() const = 0;
};

/// What a step has in common, whatever its parts.
struct DevicePartContext {
  const WorkerRange& workers;
  const CompressedAllReduceOptions& options;
  const Stream& stream;
  std::shared_ptr<DeviceCommunicator> communicator;
  std::shared_ptr<DeviceNonfinite> nonfinite;  // of all parts
  FactorState& factors;                        // of all tensors of the step; outlives the part
};

/// A DeviceAllReduce, or where the plan has tensors of low rank a DeviceLowRankAllReduce.
/// @param plan     of the layout's tensors
/// @param numbers  of these tensors in the layout of all
/// @throws InvalidArgument and NotSupported as these
std::unique_ptr<DevicePartExchange> make_device_part_exchange(const Layout& layout, CodecPlan plan,
                                                              const DevicePartContext& context,
                                                              std::vector<int> numbers);

}  // namespace terngrad
