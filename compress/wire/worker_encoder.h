// WorkerEncoder: one worker's gradient as a message, where workers do not exchange scalers.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compress/comm/communicator.h"
#include "compress/plan/codec_plan.h"
#include "compress/wire/wire_format.h"

namespace terngrad {

class Coder;
enum class MemoryUpdate;
class GradientTransport;
class PayloadRows;

/// Measures and encodes one worker's gradient with the codecs of a plan and the worker's own scalers: what a worker of
/// asynchronous training pushes. Buffers are kept from step to step.
class WorkerEncoder {
 public:
  /// @param layout, plan  kept by reference
  /// @param worker        global number, of num_workers; @param seed  of the run's draws
  WorkerEncoder(const Layout& layout, const CodecPlan& plan, int worker, int num_workers, std::uint64_t seed);
  ~WorkerEncoder();
  WorkerEncoder(WorkerEncoder&&) noexcept;
  WorkerEncoder& operator=(WorkerEncoder&&) = delete;

  int worker() const { return worker_; }

  /// Measures the local scalers of every tensor.
  void measure(const TensorTable& gradient, std::uint64_t step, Stream& stream);
  /// Whether a tensor was found to hold NaN or infinity when it was measured. It is sent as zeros.
  bool is_nonfinite(int segment) const;

  /// The local scalers that were measured, tensors in order of the layout. @param out  [plan.num_scalers()]
  void copy_scalers(std::span<float> out) const;
  /// What another worker measured, of codecs that share scalers: for all others, between measure and gradient_message.
  /// Others that are not told of have zeros, as the only worker of a run has none.
  /// @param scalers  [plan.num_scalers()] as its copy_scalers gives them
  /// @throws InvalidArgument for this worker, one that there is not, or another number of scalers
  void set_scalers(int worker, std::span<const float> scalers);

  /// Message with all tensors of the gradient that was measured, valid until the next.
  std::span<const std::uint8_t> gradient_message(const TensorTable& gradient, const MessageContext& context,
                                                 Stream& stream);
  /// Coder::keep of every tensor whose codec loses something, of the last message.
  void update_memory(MemoryUpdate what, const TensorTable& encoded, const TensorTable& kept, Stream& stream);

 private:
  /// Calls body(first, row) for every tensor: its first place in the list of all scalers, and those of a worker.
  template <class Body>
  void for_each_row(int worker, const Body& body) const;

  const CodecPlan& plan_;
  int worker_;
  int num_segments_;
  int num_workers_;
  std::unique_ptr<PayloadRows> rows_;
  std::vector<std::unique_ptr<Coder>> coders_;  // one per group of the plan
  std::unique_ptr<GradientTransport> transport_;
  Parcels parcels_;  // the message
};

}  // namespace terngrad
