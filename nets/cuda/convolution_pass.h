// ConvolutionPass: a convolution forward or backward, by cuDNN.
#pragma once

#include <cstdint>
#include <memory>

#include "nets/cuda/convolution_shape.h"
#include "nets/cuda/libraries.h"
#include "nets/device_net.h"

namespace terngrad::cuda {

/// A pass of one shape. The engine is cuDNN's first choice by heuristic among those that are deterministic and add the
/// products themselves, in float32: no FFT, no Winograd and, with MathMode::kFp32, no factors rounded for tensor cores.
/// It is never chosen by timing. So results depend on the arguments, the shape, the kind of GPU and the version of the
/// library only.
class ConvolutionPass {
 public:
  /// @throws InvalidArgument if there is no convolution of such a shape; NotSupported, naming it, if cuDNN has no such
  /// engine
  ConvolutionPass(const Libraries& libraries, ConvolutionDirection direction, const ConvolutionShape& shape,
                  MathMode math);
  /// Of another number of examples, by the very engine and settings of this one, for where one call stands for several:
  /// whether the bits are those of several calls must be tested. @returns null if that engine cannot do it
  /// @throws InvalidArgument if num_examples is not positive
  std::unique_ptr<ConvolutionPass> with_examples(int num_examples) const;

  std::int64_t workspace_bytes() const;
  /// Submits the pass. Operands in the order of ConvolutionDirection, device memory, aligned as the shape says.
  /// @param workspace  [workspace_bytes()] device memory, 256-byte aligned, used by nothing else meanwhile
  /// @param stream     any of the GPU
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
