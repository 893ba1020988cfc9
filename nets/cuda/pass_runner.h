// PassRunner: runs all layers of a net on a GPU, for the slices of all local workers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nets/cuda/layer.h"
#include "nets/pass_memory.h"

namespace terngrad::cuda {

/// Runs a net on a fixed number of slices, with its own layers, activations and scratch memory. Allocates in the
/// constructor only.
class PassRunner {
 public:
  /// @param plan   must outlive the runner
  /// @param notes  the layers' notes are appended
  PassRunner(const Libraries& libraries, const NetPlan& plan, int num_workers, int examples_per_worker, Mode mode,
             MathMode math, std::vector<std::string>& notes);

  /// @param images  [num_workers * examples_per_worker, height, width, channels]
  /// @return the logits, valid until the next call
  const float* forward(const Pass& pass, const float* images);

  /// Forward, losses and backward.
  /// @param on_segment  see SegmentSubmitted; may be empty
  void compute_gradients(const Pass& pass, const float* images, const std::int32_t* labels,
                         WorkerBuffers<float> gradients, WorkerLoss* losses, const SegmentSubmitted& on_segment);

 private:
  const NetPlan& plan_;
  Stream stream_;
  int num_workers_;
  int examples_per_worker_;
  Workspace workspace_;
  std::vector<std::unique_ptr<Layer>> layers_;  // parallel to plan_.layers; null for layers that the mode skips
  Buffer<WorkerLoss> example_losses_;
  PassMemory memory_;
};

}  // namespace terngrad::cuda
