#include "trainers/hooks/state_gather.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

Buffer<float> copy_of(std::span<const float> state) {
  Buffer<float> copy(static_cast<std::int64_t>(state.size()));
  std::ranges::copy(state, copy.span().begin());
  return copy;
}

void append(std::span<const float> state, Parcels& parcels) {
  parcels.append({reinterpret_cast<const std::uint8_t*>(state.data()), state.size_bytes()});
}

/// Parses the states of all workers, in order. @throws CommunicationError
std::vector<Buffer<float>> read_all(const Parcels& all, int num_workers, std::size_t num_elements) {
  if (all.count() != static_cast<std::size_t>(num_workers)) {
    TERNGRAD_THROW(CommunicationError, "[state] states of ", all.count(), " workers came, expected ", num_workers);
  }
  std::vector<Buffer<float>> states;
  for (std::size_t worker = 0; worker < all.count(); ++worker) {
    const std::span<const std::uint8_t> parcel = all.parcel(worker);
    if (parcel.size() != num_elements * sizeof(float)) {
      TERNGRAD_THROW(CommunicationError, "[state] the state of worker ", worker, " has ", parcel.size(),
                     " bytes, expected ", num_elements * sizeof(float));
    }
    states.emplace_back(static_cast<std::int64_t>(num_elements));
    std::memcpy(states.back().data(), parcel.data(), parcel.size());
  }
  return states;
}

class StateSenderHook final : public Hook {
 public:
  explicit StateSenderHook(const StateGatherTimes& times) : times_(times) {}
  void before_train(const TrainingView& training) override {
    if (times_.at_start(training.steps_done)) send(training);
  }
  HookVerdict after_step(const TrainingView& training, const StepView&) override {
    if (times_.after_step(training.steps_done)) send(training);
    return HookVerdict::kContinue;
  }
  void after_train(const TrainingView& training) override {
    if (sent_ != training.steps_done) send(training);
  }
  std::uint64_t next_sync_step(std::uint64_t steps_done) const override {
    return next_multiple(times_.save_steps, steps_done);
  }
  bool on_every_rank() const override { return true; }

 private:
  void send(const TrainingView& training) {
    static_cast<void>(gather_states(training));
    static_cast<void>(gather_memories(training));
    sent_ = training.steps_done;
  }
  StateGatherTimes times_;
  std::optional<std::uint64_t> sent_;
};

}  // namespace

std::vector<Buffer<float>> gather_states(const TrainingView& training) {
  if (training.services.gather_slots) training.services.gather_slots();
  std::vector<Buffer<float>> states;
  const auto num_elements = static_cast<std::size_t>(training.net.state_layout().flat_elements());
  if (num_elements == 0) return states;
  if (training.services.communicator == nullptr || training.services.communicator->size() == 1) {
    for (const std::span<const float> state : training.states) states.push_back(copy_of(state));
    return states;
  }
  Parcels mine;
  Parcels all;
  for (const std::span<const float> state : training.states) append(state, mine);
  training.services.communicator->all_gather(mine, all);
  return read_all(all, training.num_workers, num_elements);
}

std::vector<Buffer<float>> gather_memories(const TrainingView& training) {
  std::vector<Buffer<float>> kept;
  if (training.memories.layout == nullptr) return kept;
  if (training.services.communicator == nullptr || training.services.communicator->size() == 1) {
    for (const std::span<const float> state : training.memories.of_workers) kept.push_back(copy_of(state));
    return kept;
  }
  std::vector<Parcels> outgoing(static_cast<std::size_t>(training.services.communicator->size()));
  Parcels all;
  for (const std::span<const float> state : training.memories.of_workers) append(state, outgoing[0]);
  training.services.communicator->all_to_all(outgoing, all);
  if (training.services.communicator->rank() != 0) return kept;
  return read_all(all, num_senders(training), static_cast<std::size_t>(training.memories.layout->flat_elements()));
}

std::unique_ptr<Hook> make_state_sender_hook(const StateGatherTimes& times) {
  TERNGRAD_REQUIRE(times.save_steps >= 1, "[make_state_sender_hook] save_steps must be 1 or more");
  return std::make_unique<StateSenderHook>(times);
}

}  // namespace terngrad
