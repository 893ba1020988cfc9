// Codebook codes on a GPU: the GPU part of CodebookQuantizer.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/codebook_codes.h"

namespace terngrad::cuda {

class CodebookRunner {
 public:
  virtual ~CodebookRunner() = default;
  /// @param type    element type of all tasks
  /// @param levels  4, 8 or 16
  virtual void run(std::span<const QuantizeTask> tasks, ElementType type, int levels, Stream& stream) = 0;
};

std::shared_ptr<CodebookRunner> make_codebook_runner(const Device& device);

}  // namespace terngrad::cuda
