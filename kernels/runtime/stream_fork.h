// StreamFork: work of one stream that may run side by side.
#pragma once

#include <memory>
#include <vector>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Branches of a GPU's stream: what they are given between `begin` and `join` runs after what the stream was given
/// before, side by side with what it is given meanwhile, and before what it is given afterwards. Small kernels that do
/// not depend on each other fill a GPU only together. `begin` may come again before `join`: branches then also wait for
/// what the stream was given since. Can be captured into a CUDA graph, whose nodes then branch. Work of different
/// branches, and of the stream meanwhile, must not write what another reads or writes.
class StreamFork {
 public:
  /// @param num_branches  at least 1. @throws InvalidArgument for fewer, NotSupported for a CPU's stream
  StreamFork(const Stream& stream, int num_branches);

  int num_branches() const { return static_cast<int>(branches_.size()); }
  void begin();
  const Stream& branch(int index) const { return branches_.at(static_cast<std::size_t>(index)).stream; }
  void join();

 private:
  struct Branch {
    Stream stream;
    std::shared_ptr<void> end;  // an event
  };
  Stream stream_;
  std::shared_ptr<void> begin_;  // an event
  std::vector<Branch> branches_;
};

}  // namespace terngrad
