// ConvolutionPass: a forward or backward convolution by cuDNN.
#pragma once

#include <cstdint>
#include <memory>

#include "nets/cuda/convolution_shape.h"
#include "nets/cuda/libraries.h"
#include "nets/device_net.h"

namespace terngrad::cuda {

/// A pass of one shape. Uses the first engine of cuDNN's heuristic, never one chosen by timing, that is deterministic
/// and sums products directly in float32: no FFT, no Winograd and, with MathMode::kFp32, no factors rounded for tensor
/// cores. So results depend on the arguments, the shape, the GPU model and the version of the library only.
class ConvolutionPass {
 public:
  /// @throws InvalidArgument for an invalid shape; NotSupported, naming the shape, if cuDNN has no such engine
  ConvolutionPass(const Libraries& libraries, ConvolutionDirection direction, const ConvolutionShape& shape,
                  MathMode math);
  /// A pass for another number of examples with the same engine and settings, to replace several calls by one; the
  /// caller must test that bits are the same. @returns null if the engine cannot do it
  /// @throws InvalidArgument if num_examples is not positive
  std::unique_ptr<ConvolutionPass> with_examples(int num_examples) const;

  std::int64_t workspace_bytes() const;
  /// Submits the pass. Operands in the order of ConvolutionDirection, in device memory, with the shape's alignment.
  /// @param workspace  [workspace_bytes()] device memory, 256-byte aligned, not used by other work meanwhile
  /// @param stream     any stream of the GPU
  void run(const float* first, const float* second, float* result, void* workspace, const Stream& stream) const;
  const ConvolutionShape& shape() const { return shape_; }

 private:
  struct Plan;
  ConvolutionPass(const Libraries& libraries, ConvolutionDirection direction, const ConvolutionShape& shape,
                  std::shared_ptr<const Plan> plan);
  Libraries libraries_;
  ConvolutionDirection direction_;
  ConvolutionShape shape_;
  std::shared_ptr<const Plan> plan_;
};

}  // namespace terngrad::cuda
