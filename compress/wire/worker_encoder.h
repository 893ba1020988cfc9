// WorkerEncoder: encodes one worker's gradient as a message, outside of an exchange.
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
struct MemoryUpdate;
class GradientTransport;
class PayloadRows;

/// Measures and encodes one worker's gradient with the codecs of a plan and the worker's own scalers, as a worker of
/// asynchronous training does for a push. Buffers are reused from step to step.
class WorkerEncoder {
 public:
  /// @param layout, plan  kept by reference
  /// @param worker        global number, below num_workers; @param seed  of the run's draws
  WorkerEncoder(const Layout& layout, const CodecPlan& plan, int worker, int num_workers, std::uint64_t seed);
  ~WorkerEncoder();
  WorkerEncoder(WorkerEncoder&&) noexcept;
  WorkerEncoder& operator=(WorkerEncoder&&) = delete;

  int worker() const { return worker_; }

  /// Measures the local scalers of every tensor.
  void measure(const TensorTable& gradient, std::uint64_t step, Stream& stream);
  /// True if the last measured gradient of a tensor holds NaN or infinity. Such a tensor is sent as zeros.
  bool is_nonfinite(int segment) const;

  /// Copies the measured local scalers, in layout order. @param out  [plan.num_scalers()]
  void copy_scalers(std::span<float> out) const;
  /// Sets the scalers that another worker measured, for codecs that share scalers. Call it for all other workers
  /// between measure and gradient_message; the scalers of workers without a call are zeros, as in a run with one
  /// worker.
  /// @param scalers  [plan.num_scalers()] from the other worker's copy_scalers
  /// @throws InvalidArgument for this worker's number, a number out of range, or another number of scalers
  void set_scalers(int worker, std::span<const float> scalers);

  /// Message with all tensors of the measured gradient; valid until the next call.
  std::span<const std::uint8_t> gradient_message(const TensorTable& gradient, const MessageContext& context,
                                                 Stream& stream);
  /// Coder::update_memory for every tensor of the last message.
  void update_memory(const MemoryUpdate& what, const TensorTable& encoded, const TensorTable& kept, Stream& stream);

 private:
  /// Calls body(first, row) for every tensor: index of its first scaler in the list of all scalers, and the worker's
  /// local scalers.
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
