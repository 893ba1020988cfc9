// MomentsOptimizer: base of optimizers with Adam's two moments and a count of updates.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "kernels/runtime/buffer.h"
#include "kernels/runtime/device.h"
#include "trainers/optim/optimizer.h"

namespace terngrad {

/// Slots "m" and "v", initially zero. Applied updates are counted, so skipped steps do not advance their number;
/// checkpoints store it as NAME_updates.
class MomentsOptimizer : public Optimizer {
 public:
  MomentsOptimizer(std::string name, std::int64_t flat_elements, const Device& device);
  const std::string& name() const override { return name_; }
  void count_updates(std::uint64_t count) override { num_updates_ += count; }
  std::vector<Slot> slots() override { return {{"m", first_moment_.span()}, {"v", second_moment_.span()}}; }
  std::map<std::string, std::string> state() const override;
  void restore_state(const std::map<std::string, std::string>& entries) override;

 protected:
  std::span<float> first_moment(std::int64_t first, std::span<const float> parameters) {
    return part_of(first_moment_, first, parameters);
  }
  std::span<float> second_moment(std::int64_t first, std::span<const float> parameters) {
    return part_of(second_moment_, first, parameters);
  }
  std::uint64_t num_updates() const { return num_updates_; }
  /// The count that `key` of a saved state holds. @throws DataError if it is missing or no count
  std::uint64_t count_of(const std::map<std::string, std::string>& entries, const std::string& key) const;

 private:
  std::string name_;
  Buffer<float> first_moment_;
  Buffer<float> second_moment_;
  std::uint64_t num_updates_ = 0;
};

}  // namespace terngrad
