// StreamFork: concurrent branches of a stream.
#pragma once

#include <memory>
#include <vector>

#include "kernels/runtime/device.h"

namespace terngrad {

/// Branches of a GPU's stream. Work submitted to a branch between `begin` and `join` runs after earlier work of the
/// stream, concurrently with work submitted to the stream meanwhile, and before later work. Small independent kernels
/// only fill a GPU together. `begin` may be called again before `join`: branches then also wait for the stream's work
/// since the last `begin`. Can be captured into a CUDA graph, whose nodes then branch. Concurrent work must not write
/// memory that other concurrent work reads or writes.
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
