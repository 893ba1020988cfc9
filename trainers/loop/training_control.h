// TrainingControl: what a hook may change of a run between two steps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/tensor/layout.h"

namespace terngrad {

/// The changes of one call of Hook::before_step. They hold from the next step on, on this process's GPUs too.
class TrainingControl {
 public:
  /// @param frozen  one flag per tensor; changed by freeze and thaw
  TrainingControl(const Layout& layout, std::uint64_t steps_done, std::span<float> parameters, std::span<float> ema,
                  std::vector<bool>& frozen)
      : layout_(layout), steps_done_(steps_done), parameters_(parameters), ema_(ema), frozen_(frozen) {}

  const Layout& layout() const { return layout_; }
  /// Also the number of the next step.
  std::uint64_t steps_done() const { return steps_done_; }
  /// A tensor of the parameters, to be changed; and of their moving average, which evaluation uses.
  /// @throws InvalidArgument if there is no tensor with that name
  std::span<float> parameters(const std::string& tensor) const { return tensor_of(parameters_, tensor); }
  std::span<float> average(const std::string& tensor) const { return tensor_of(ema_, tensor); }

  /// Freezes, or trains again, the tensors whose names match the pattern, as CodecRule has it (`conv*`); see
  /// TrainedTensors. A frozen tensor's moving statistics and average go on.
  /// @throws InvalidArgument if no tensor matches
  void freeze(const std::string& pattern) const { set_frozen(pattern, true); }
  void thaw(const std::string& pattern) const { set_frozen(pattern, false); }

 private:
  std::span<float> tensor_of(std::span<float> flat, const std::string& tensor) const;
  void set_frozen(const std::string& pattern, bool is_frozen) const;

  const Layout& layout_;
  std::uint64_t steps_done_;
  std::span<float> parameters_;
  std::span<float> ema_;
  std::vector<bool>& frozen_;
};

}  // namespace terngrad
