// The way back of a mean, for tests: coders with known scalers, and values as they are aggregated.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "compress/codec/coder.h"
#include "compress/codecs/ternary_spec.h"
#include "compress/plan/codec_plan.h"
#include "compress/transport/downlink.h"
#include "support/gradients.h"

namespace terngrad::testing {

/// Five workers on one of `size` ranks, whose tensor "plain" is sent as fp32 and all others as ternary codes.
struct MeanLeg {
  static constexpr int kWorkers = 5;
  static constexpr std::uint64_t kSeed = 11;

  Layout layout = small_layout();
  CodecPlan plan;
  std::vector<WorkerRange> ranks;
  int rank;
  CoderSetup setup;
  DownlinkForms forms;
  std::vector<PayloadSlots> slots;               // per group; the coders encode nothing
  std::vector<std::unique_ptr<Coder>> coders;    // per group
  std::unique_ptr<Downlink> downlink = nullptr;  // made by the test, for its parts
  Stream stream{Device::cpu(), 2};

  explicit MeanLeg(DownlinkCodec codec, const TernaryOptions& ternary = {}, bool travels = true, int rank_number = 0,
                   int size = 1)
      : plan(layout, plan_options(ternary)),
        ranks(all_ranks(size)),
        rank(rank_number),
        setup{.layout = layout, .workers = ranks[static_cast<std::size_t>(rank)], .seed = kSeed},
        forms(plan, codec, kWorkers, travels),
        slots(plan.groups().size()) {
    NonfiniteReport report;
    for (std::size_t group = 0; group < plan.groups().size(); ++group) {
      const CodecPlan::Group& tensors = plan.groups()[group];
      coders.push_back(tensors.codec->make_coder(setup, tensors.segments, slots[group]));
      for (int worker = 0; worker < kWorkers && tensors.codec->traits().summable; ++worker) {
        const std::span<float> row = coders.back()->local_row(worker);
        for (std::size_t s = 0; s < row.size(); ++s) row[s] = 0.7f + 0.1f * static_cast<float>(s);
      }
      coders.back()->combine_scalers(&report, nullptr, nullptr, stream);
    }
  }
  MeanLeg(const MeanLeg&) = delete;
  MeanLeg& operator=(const MeanLeg&) = delete;

  static Layout small_layout() {
    Layout layout;
    layout.add("big", {20000});
    layout.add("empty", {0});
    layout.add("plain", {33});
    layout.add("few", {7});
    return layout;
  }
  static CodecPlanOptions plan_options(const TernaryOptions& ternary) {
    CodecPlanOptions options;
    options.rules = {{"plain", "fp32"}};
    options.codec = ternary_spec(ternary);
    options.context.num_workers = kWorkers;
    return options;
  }
  static std::vector<WorkerRange> all_ranks(int size) {
    std::vector<WorkerRange> ranks;
    for (int rank = 0; rank < size; ++rank) ranks.push_back(worker_range(kWorkers, rank, size));
    return ranks;
  }

  /// Shared scaler of a tensor's block.
  float shared(int segment, std::size_t block = 0) const {
    const Coder& coder = *coders[static_cast<std::size_t>(plan.group_of(segment))];
    return coder.shared_scalers()[static_cast<std::size_t>(coder.first_scaler({segment, 0, 0})) + block];
  }

  /// Sums of five codes for the tensors that are aggregated to sums, means for the others.
  Tensors aggregated() const {
    Tensors tensors = gaussian_tensors(layout, 1);
    for (int t = 0; t < layout.num_segments(); ++t) {
      if (forms.unit(t) != AggregateUnit::kSums) continue;
      std::mt19937_64 random(static_cast<std::uint64_t>(t) + 1);
      for (float& sum : tensors.values[static_cast<std::size_t>(t)]) {
        int total = 0;
        for (int w = 0; w < kWorkers; ++w) total += static_cast<int>(random() % 3) - 1;
        sum = static_cast<float>(total);
      }
    }
    return tensors;
  }
};

}  // namespace terngrad::testing
