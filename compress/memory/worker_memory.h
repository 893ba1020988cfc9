// WorkerMemory: per-worker state of error feedback, momentum, DGC, LoCo or EF21.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compress/codec/memory_update.h"
#include "compress/memory/memory_options.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device_step.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

class CodecPlan;

/// Default memory spec: a preset's memory, error feedback for a codec that wants it, else none. Also none if the codecs
/// of all tensors are lossless. @param codec  spec or preset that `plan` was made with
std::string default_memory(const std::string& codec, const CodecPlan& plan, int num_workers);

/// One state update of a settled step: arguments of Coder::update_memory, one table per local worker.
struct MemoryTables {
  MemoryUpdate what;
  std::vector<TensorTable> from;  // encoded gradients, the new velocities, or with kAdded the state
  std::vector<TensorTable> into;  // state, with kAveraged in words
};

/// A stage before the codec: computes the compensated gradient, which is encoded, from gradient and state, and the new
/// state once the step is settled (formulas: MemoryKind). A dropped step, or a non-finite tensor, leaves the state
/// unchanged. Tensors with lossless codecs have no state and are encoded as they are, except with kDgc, where all
/// tensors have a velocity.
///
/// Gradients are not modified, and may be overwritten by the mean; a dropped step needs no rollback. Takes 8 bytes per
/// element and worker, whatever the type of gradients: state and compensated gradient in float32. With kDgc, and kEf21
/// with a decay, 16 bytes: also velocity and next velocity. With kLoco 5.0625 bytes: a state in 8 bits. The mean of
/// kEf21 is in SharedState. State belongs to a worker's global number, and its bits do not depend on processes,
/// buckets, threads or the device.
class WorkerMemory {
 public:
  /// State begins with zeros. @param plan  of all tensors
  /// @throws InvalidArgument for MemoryKind::kNone; if the codecs of all tensors are lossless; for error feedback and
  /// kLoco with a codec that votes or amplifies (CodecTraits); for kDgc with a lossy codec that is not sparse or
  /// amplifies; for kLoco with one of low rank; for kEf21 with one that votes, is of low rank or does not contract
  WorkerMemory(const Layout& layout, const CodecPlan& plan, const MemoryOptions& options, int num_local_workers,
               const Device& device = Device::cpu());

  const MemoryOptions& options() const { return options_; }
  std::string name() const { return word_of(options_.kind); }
  /// True if a tensor has state.
  bool covers(int segment) const { return covers_.at(static_cast<std::size_t>(segment)); }

  /// Computes the compensated gradients of a part of the tensors.
  /// @param selection  layout with the tensors `segments` of the whole layout, in this order
  /// @param gradients  one table of these tensors per local worker, all of one type, final
  /// @param step       the same for all parts of a step; counts steps for the reset of kLoco
  /// @returns compensated gradients, to be encoded: one table per local worker
  std::vector<TensorTable> compensate(const Layout& selection, std::span<const int> segments,
                                      std::span<const TensorTable> gradients, const DeviceStep& step, Stream& stream);
  /// State updates for the tensors of a part, once the step is settled. @param encoded  the result of compensate
  std::vector<MemoryTables> kept(const Layout& selection, std::span<const int> segments,
                                 std::span<const TensorTable> encoded) const;
  /// Residual, estimate or moving average per tensor. With kDgc, kLoco and a velocity of kEf21 null for tensors with
  /// lossless codecs, with kLoco in the words of layout().
  std::span<const TensorTable> states() const { return states_; }
  /// True if the tensor has a residual, estimate or moving average.
  bool has_state(int segment) const { return covered_.find(whole_.segment(segment).name) >= 0; }
  /// Reads the residual, estimate or moving average of a tensor, and waits for it.
  /// @param out  [elements of the tensor] in the device's memory
  void read_state(int local_worker, int segment, std::span<float> out, Stream& stream) const;

  /// Layout of the state: the tensors that have state, at their offsets in the whole layout. With kDgc, and kEf21 with
  /// a decay, a different layout: residuals or estimates under their tensors' names, then velocities with "/velocity"
  /// appended to the names. With kLoco tensors of shape [blocks, 17], whose float32 words hold the bits of codes and
  /// scales.
  const Layout& layout() const { return covered_; }
  /// [layout().flat_elements()] state of a local worker, in the memory of the device.
  std::span<float> state(int local_worker) { return state_memory_.at(static_cast<std::size_t>(local_worker)).span(); }
  int num_local_workers() const { return static_cast<int>(state_memory_.size()); }

 private:
  /// Buffer for the compensated gradient of a tensor; the gradient itself if it is encoded unchanged.
  float* encoded_of(std::size_t worker, int segment, const TensorTable& gradients, int at);
  void compensate(std::size_t worker, int segment, const TensorTable& gradients, int at, Stream& stream);
  /// The average of kLoco, in the last step that was compensated.
  ResidualAverage average() const;
  void add_worker(const Device& device, Stream& stream);
  bool has_velocity() const { return is_dgc() || (options_.kind == MemoryKind::kEf21 && options_.decay > 0); }
  bool is_dgc() const { return options_.kind == MemoryKind::kDgc; }

  Layout whole_, covered_;
  MemoryOptions options_;
  DeviceStep step_;
  std::vector<bool> covers_;
  std::vector<Buffer<float>> state_memory_, encoded_memory_, next_memory_;  // one per local worker
  std::vector<TensorTable> states_;
  std::vector<TensorTable> velocities_, next_velocities_;  // if has_velocity
};

}  // namespace terngrad
