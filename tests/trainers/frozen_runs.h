// Small training runs with frozen tensors.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/support/bits.h"
#include "trainers/hooks/freeze_hook.h"
#include "trainers/loop/trainer.h"

namespace terngrad::testing {

/// The first step that trains all tensors again.
inline constexpr std::uint64_t kUntil = 4;

inline std::unique_ptr<Hook> freeze_some(std::uint64_t until = kUntil) {
  return make_freeze_hook({"conv1/*", "fc*/weights"}, until);
}

inline bool is_frozen(const std::string& name) {
  return name.starts_with("conv1/") || (name.starts_with("fc") && name.ends_with("/weights"));
}

/// Bytes that each step sent, and the bits of every tensor before the run and after each step.
struct RecordedTensors {
  std::vector<double> sent;
  std::vector<std::map<std::string, std::vector<std::uint32_t>>> tensors;
};

inline void add_tensors(const Layout& layout, std::span<const float> parameters, RecordedTensors& recorded) {
  auto& now = recorded.tensors.emplace_back();
  for (const Segment& segment : layout.segments()) {
    now[segment.name] = bits_of(
        parameters.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements)));
  }
}

/// Trains six steps with conv1 and the first fully connected layer frozen for the first four.
inline RecordedTensors record_frozen(Trainer& trainer) {
  RecordedTensors recorded;
  trainer.add_hook(freeze_some());
  add_tensors(trainer.net().layout(), trainer.parameters(), recorded);
  trainer.add_hook(every_steps(1, [&recorded](const TrainingView& training, const StepView& step) {
    recorded.sent.push_back(static_cast<double>(step.report.sent_bytes()));
    add_tensors(training.net.layout(), training.parameters, recorded);
    return HookVerdict::kContinue;
  }));
  trainer.run();
  return recorded;
}

inline void expect_frozen_until(const RecordedTensors& recorded) {
  int num_frozen = 0;
  for (const auto& [name, initial] : recorded.tensors[0]) {
    num_frozen += is_frozen(name) ? 1 : 0;
    for (std::size_t step = 1; step < recorded.tensors.size(); ++step) {
      const bool stays = recorded.tensors[step].at(name) == recorded.tensors[step - 1].at(name);
      EXPECT_EQ(stays, is_frozen(name) && step <= kUntil) << name << " in step " << step;
    }
  }
  EXPECT_EQ(num_frozen, 3);
  for (std::size_t step = 0; step < recorded.sent.size(); ++step) {
    EXPECT_EQ(recorded.sent[step], recorded.sent[step < kUntil ? 0 : kUntil]) << step;
  }
  EXPECT_LT(recorded.sent[0], 0.5 * recorded.sent[kUntil]);
}

/// Norm of worker 0's transformed gradient over the tensors that are not frozen, in a run that clips to `norm`.
inline double norm_of_trained(Trainer& trainer) {
  double squares = 0;
  trainer.add_hook(freeze_some(0));
  trainer.add_hook(at_step(1, [&](const TrainingView& training, const StepView& step) {
    std::int64_t num_frozen = 0;
    for (int segment = 0; segment < training.net.layout().num_segments(); ++segment) {
      if (is_frozen(training.net.layout().segment(segment).name)) {
        num_frozen += training.net.layout().segment(segment).num_elements;
      }
      EXPECT_EQ(training.is_frozen(segment), is_frozen(training.net.layout().segment(segment).name));
      if (training.is_frozen(segment)) continue;
      for (const float value : step.gradient(segment)) squares += double{value} * double{value};
    }
    EXPECT_EQ(num_frozen_elements(training), num_frozen);
    return HookVerdict::kContinue;
  }));
  trainer.run();
  return std::sqrt(squares);
}

inline constexpr double kNorm = 1e-3;

}  // namespace terngrad::testing
