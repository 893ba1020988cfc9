// WorkerMemory: what the workers of a process keep of their gradients from step to step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "compress/codec/memory_update.h"
#include "compress/memory/memory_options.h"
#include "kernels/runtime/buffer.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/slice.h"

namespace terngrad {

class CodecPlan;

/// The memory of workers where nobody names one: a preset's, error feedback for a codec that wants it, else none. None
/// too where the codecs of all tensors lose nothing. @param codec  the spec or preset that `plan` was made with
std::string default_memory(const std::string& codec, const CodecPlan& plan, int num_workers);

/// What is kept of a settled step (Coder::keep), and where. One table per local worker.
struct MemoryTables {
  MemoryUpdate what;
  std::vector<TensorTable> from;  // what was encoded, or stands in its place
  std::vector<TensorTable> into;  // state
};

/// A stage before any codec: of a step's gradient and a state it makes the gradient that is encoded, `compensated`, and
/// when the step is settled the new state (MemoryKind says which). A dropped step and a tensor that is not finite leave
/// the state as it was. Tensors whose codec loses nothing have no state and are encoded as they are, except with kDgc,
/// whose velocity is that of all tensors.
///
/// Gradients are read only, and may be overwritten by the mean, so nothing needs to be put back where a step is
/// dropped. Takes 8 bytes per element and worker: state and what is encoded, both in float32, whatever the type of
/// gradients; 16 with kDgc: residual, velocity, the velocity that is to come and what is encoded. State belongs to a
/// worker's global number, and no bit of it depends on processes, buckets, threads or the device.
class WorkerMemory {
 public:
  /// State begins with zeros. @param plan  of all tensors. @throws InvalidArgument for MemoryKind::kNone,
  /// where the codecs of all tensors lose nothing, for error feedback beside a codec that votes or amplifies
  /// (CodecTraits), and for kDgc beside one that loses something and is not sparse
  WorkerMemory(const Layout& layout, const CodecPlan& plan, const MemoryOptions& options, int num_local_workers,
               const Device& device = Device::cpu());

  const MemoryOptions& options() const { return options_; }
  std::string name() const { return memory_name(options_.kind); }
  /// Whether a tensor has state.
  bool covers(int segment) const { return covers_.at(static_cast<std::size_t>(segment)); }

  /// Begins a step. @param gradients  one table per local worker, all of one type; their tensors may still hold
  /// anything
  /// @returns what is to be encoded in their place: one table per local worker, until the next call
  std::span<const TensorTable> begin(std::span<const TensorTable> gradients);
  /// Makes what is encoded of these tensors, whose gradients are final.
  void compensate(std::span<const int> segments, Stream& stream);
  /// begin and compensate for some tensors, of an exchange that does not know its parts beforehand.
  /// @param selection  the tensors `segments` of the whole layout, in this order
  /// @param gradients  one table of these tensors per local worker, all of one type, final
  /// @returns what is to be encoded in their place: one table per local worker
  std::vector<TensorTable> compensate_part(const Layout& selection, std::span<const int> segments,
                                           std::span<const TensorTable> gradients, Stream& stream);
  /// What a settled step keeps, of all tensors, after begin.
  std::vector<MemoryTables> kept() const;
  /// The same of these tensors, after compensate_part. @param encoded  its result
  std::vector<MemoryTables> kept_of(const Layout& selection, std::span<const int> segments,
                                    std::span<const TensorTable> encoded) const;
  std::span<const TensorTable> encoded() const { return encoded_; }
  /// What is added to the next gradient: the residual, or the moving average. With kDgc null of tensors whose codec
  /// loses nothing.
  std::span<const TensorTable> states() const { return states_; }

  /// The tensors that have state, each where it is in the whole layout; with kDgc another layout: the residuals under
  /// their tensors' names, then of each tensor the velocity with "/velocity" behind its name.
  const Layout& layout() const { return covered_; }
  /// [layout().flat_elements()] of a local worker, in the memory of the device.
  std::span<float> state(int local_worker) { return state_memory_.at(static_cast<std::size_t>(local_worker)).span(); }
  int num_local_workers() const { return static_cast<int>(state_memory_.size()); }

 private:
  /// Where what is encoded of a tensor is, for a gradient that is there.
  float* encoded_of(std::size_t worker, int segment, const TensorTable& gradients, int at);
  void compensate(std::size_t worker, int segment, const TensorTable& gradients, int at, Stream& stream);
  void add_worker(const Device& device, Stream& stream);
  bool has_velocity() const { return options_.kind == MemoryKind::kDgc; }

  Layout whole_, covered_;
  MemoryOptions options_;
  std::vector<bool> covers_;
  std::vector<Buffer<float>> state_memory_, encoded_memory_, next_memory_;  // one per local worker
  std::vector<TensorTable> gradients_, encoded_, states_;
  std::vector<TensorTable> velocities_, next_velocities_;  // of kDgc
};

}  // namespace terngrad
