#include "trainers/hooks/replica_check.h"

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"
#include "trainers/io/xxhash64.h"

namespace terngrad {
namespace {

struct NamedValues {
  std::string name;
  std::span<const float> values;
};

class ReplicaCheckHook final : public Hook {
 public:
  explicit ReplicaCheckHook(std::uint64_t steps) : steps_(steps) {}

  HookVerdict after_step(const TrainingView& training, const StepView&) override {
    if (training.steps_done % steps_ == 0 && training.services.communicator != nullptr) compare(training);
    return HookVerdict::kContinue;
  }
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override { return next_multiple(steps_, steps_done); }
  bool on_every_rank() const override { return true; }

 private:
  static std::vector<NamedValues> tensors_of(const TrainingView& training) {
    std::vector<NamedValues> tensors;
    const Layout& layout = training.net.layout();
    const auto add = [&](const std::string& group, std::span<const float> flat) {
      for (int index = 0; index < layout.num_segments(); ++index) {
        const Segment& segment = layout.segment(index);
        tensors.push_back({group + "/" + segment.name, flat.subspan(static_cast<std::size_t>(segment.offset),
                                                                    static_cast<std::size_t>(segment.num_elements))});
      }
    };
    add("parameters", training.parameters);
    for (const Optimizer::Slot& slot : training.slots) add("slots/" + slot.name, slot.values);
    add("ema", training.ema);
    return tensors;
  }

  static void compare(const TrainingView& training) {
    const std::vector<NamedValues> tensors = tensors_of(training);
    std::vector<std::vector<std::uint64_t>> sums(static_cast<std::size_t>(training.services.num_replicas));
    for (int replica = training.services.num_replicas - 1; replica >= 0; --replica) {
      if (training.services.num_replicas > 1) training.services.show_replica(replica);
      for (const NamedValues& tensor : tensors) {
        sums[static_cast<std::size_t>(replica)].push_back(Xxhash64().add(std::as_bytes(tensor.values)).value());
      }
    }
    Parcels mine;
    Parcels all;
    for (const std::vector<std::uint64_t>& of_replica : sums) {
      mine.append(
          {reinterpret_cast<const std::uint8_t*>(of_replica.data()), of_replica.size() * sizeof(std::uint64_t)});
    }
    training.services.communicator->all_gather(mine, all);
    const std::span<const std::uint8_t> chief = all.parcel(0);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      for (std::size_t replica = 1; replica < all.count(); ++replica) {
        const std::span<const std::uint8_t> theirs = all.parcel(replica);
        const bool is_same = theirs.size() == chief.size() &&
                             std::memcmp(theirs.data() + 8 * i, chief.data() + 8 * i, sizeof(std::uint64_t)) == 0;
        if (is_same) continue;
        TERNGRAD_THROW(Error, "step ", training.steps_done, ": the replicas have drifted apart: tensor '",
                       tensors[i].name, "' of ", name_of(replica, sums.size()), " is not that of ",
                       name_of(0, sums.size()));
      }
    }
  }

  /// All ranks have the same number of replicas. @param replica  index over all ranks, in order of ranks
  static std::string name_of(std::size_t replica, std::size_t num_of_rank) {
    const std::string rank = "rank " + std::to_string(replica / num_of_rank);
    return num_of_rank == 1 ? rank : "GPU " + std::to_string(replica % num_of_rank) + " of " + rank;
  }

  std::uint64_t steps_;
};

}  // namespace

std::unique_ptr<Hook> make_replica_check_hook(std::uint64_t steps) {
  TERNGRAD_REQUIRE(steps >= 1, "[make_replica_check_hook] steps must be 1 or more");
  return std::make_unique<ReplicaCheckHook>(steps);
}

}  // namespace terngrad
