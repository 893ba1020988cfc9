// Votes on a GPU: the GPU part of VoteCounter.
#pragma once

#include <memory>
#include <span>

#include "kernels/codes/votes.h"

namespace terngrad::cuda {

class VoteRunner {
 public:
  virtual ~VoteRunner() = default;
  virtual void run(std::span<const CodeSumTask> tasks, Stream& stream) = 0;
};

std::shared_ptr<VoteRunner> make_vote_runner(const Device& device);

}  // namespace terngrad::cuda
