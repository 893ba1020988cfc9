// Signs on a GPU: the GPU part of SignPacker.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/signs.h"

namespace terngrad::cuda {

class SignRunner {
 public:
  virtual ~SignRunner() = default;
  /// @param type         element type of all tasks
  /// @param device_step  null, or the step in device memory, which replaces key.step
  virtual void run(std::span<const QuantizeTask> tasks, ElementType type, const SignOptions& options,
                   const DrawKey& key, const std::uint64_t* device_step, Stream& stream) = 0;
};

std::shared_ptr<SignRunner> make_sign_runner(const Device& device);

}  // namespace terngrad::cuda
