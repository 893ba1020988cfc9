#include "trainers/launch/gpu_assignment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/runtime/errors.h"
#include "tests/trainers/command_runs.h"

namespace terngrad::gpu_assignment_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Processes = std::vector<ProcessGpus>;

ProcessGpus process(int rank, const std::string& host, const std::vector<std::string>& ids, int num_gpus = 0) {
  return {.process = "rank " + std::to_string(rank) + " on " + host,
          .host = host,
          .device = "cuda",
          .num_gpus = num_gpus,
          .math = "tf32",
          .ids = ids,
          .models = std::vector<std::string>(ids.size(), "model")};
}

/// Processes on hosts with `gpus_per_host` GPUs each: {0, 0, 1} means two on the first host and one on the second.
Processes on_hosts(const std::vector<int>& hosts, int gpus_per_host, int num_gpus = 0) {
  std::vector<std::string> ids;
  for (int i = 0; i < gpus_per_host; ++i) ids.push_back("gpu" + std::to_string(i));
  Processes processes;
  for (const int host : hosts) {
    const int rank = static_cast<int>(processes.size());
    processes.push_back(process(rank, "node" + std::to_string(host), ids, num_gpus));
  }
  return processes;
}

/// "first+count" of each process.
std::string shared(const Processes& processes, GpuUse use = GpuUse::kExclusive) {
  std::string text;
  for (const GpuRange& range : assign_gpus(processes, use)) {
    EXPECT_EQ(range.joins_others, use == GpuUse::kExclusive);
    text += (text.empty() ? "" : " ") + std::to_string(range.first) + "+" + std::to_string(range.count);
  }
  return text;
}

std::string refusal(const Processes& processes, GpuUse use = GpuUse::kExclusive) {
  return testing::message_of<UsageError>([&] { assign_gpus(processes, use); });
}

TEST(GpuAssignment, ProcessesOfAHostShareItsGpusInOrder) {
  EXPECT_EQ(shared(on_hosts({0, 0}, 2)), "0+1 1+1");
  EXPECT_EQ(shared(on_hosts({0, 0}, 8)), "0+4 4+4");
  EXPECT_EQ(shared(on_hosts({0, 0, 1, 1}, 4)), "0+2 2+2 0+2 2+2");
  // Ranks alternate between hosts.
  EXPECT_EQ(shared(on_hosts({0, 1, 0, 1}, 2)), "0+1 0+1 1+1 1+1");
  EXPECT_EQ(shared(on_hosts({0, 1}, 3)), "0+3 0+3");
}

TEST(GpuAssignment, ProcessesTakeAsManyAsTheyAreTold) {
  EXPECT_EQ(shared(on_hosts({0, 0, 0}, 8, 2)), "0+2 2+2 4+2");
  EXPECT_EQ(shared(on_hosts({0, 0, 1}, 4, 1)), "0+1 1+1 0+1");
}

TEST(GpuAssignment, AProcessThatSeesGpusOfItsOwnTakesThem) {
  EXPECT_EQ(shared({process(0, "a", {"x"}), process(1, "a", {"y"})}), "0+1 0+1");
  EXPECT_EQ(shared({process(0, "a", {"x", "y"}), process(1, "a", {"z", "w"})}), "0+2 0+2");
  // The same GPU name on another host is another GPU.
  EXPECT_EQ(shared({process(0, "a", {"x"}), process(1, "b", {"x"})}), "0+1 0+1");
}

TEST(GpuAssignment, WithoutGpusAutoIsTheCpu) {
  Processes processes = on_hosts({0, 1}, 0);
  for (ProcessGpus& each : processes) {
    each.device = "auto";
    each.why_none = "no driver";
  }
  EXPECT_THAT(assign_gpus(processes, GpuUse::kExclusive), ::testing::IsEmpty());
  processes[1].why_none = "";
  EXPECT_THAT(refusal(processes), AllOf(HasSubstr("--device auto: rank 0 on node0 has no GPU (no driver), others have"),
                                        HasSubstr("accepted: cpu")));
  for (ProcessGpus& each : processes) each.device = "cuda";
  EXPECT_THAT(refusal(processes), HasSubstr("--device cuda: rank 0 on node0 has no GPU (no driver); accepted: cpu"));
  for (ProcessGpus& each : processes) each.device = "cpu";
  EXPECT_THAT(assign_gpus(processes, GpuUse::kExclusive), ::testing::IsEmpty());
}

TEST(GpuAssignment, WhatCannotBeSharedIsRefused) {
  EXPECT_THAT(refusal(on_hosts({0, 0}, 1)),
              HasSubstr("2 processes share the 1 GPU of node0, and each needs one of its own; accepted: cpu, or at "
                        "most 1 process there"));
  EXPECT_THAT(refusal(on_hosts({0, 0, 0}, 8)),
              HasSubstr("--num_gpus: 3 processes cannot share the 8 GPUs of node0 evenly; say how many each is to "
                        "take, 1 to 2"));
  EXPECT_THAT(refusal(on_hosts({0, 0}, 4, 3)),
              HasSubstr("--num_gpus 3: 2 processes share 4 GPUs of node0; accepted: 0 (an equal part) to 2"));
  EXPECT_THAT(refusal(on_hosts({0, 1}, 4, 5)), HasSubstr("--num_gpus 5: rank 0 on node0 sees 4 GPUs"));
  // Two processes on one host, one on another.
  EXPECT_THAT(refusal(on_hosts({0, 0, 1}, 4)),
              HasSubstr("--num_gpus: the equal part of rank 2 on node1 is 4 GPUs and that of rank 0 on node0 2 GPUs; "
                        "say how many each is to take, 1 to 2"));
}

TEST(GpuAssignment, NoGpuIsTakenTwice) {
  EXPECT_THAT(refusal({process(0, "a", {"x", "y"}, 1), process(1, "a", {"y", "x"}, 1), process(2, "a", {"x"}, 1)}),
              HasSubstr("rank 2 on a and rank 0 on a would both take the GPU x"));
}

TEST(GpuAssignment, GpusThatMayServeSeveralProcessesAreTakenInTurn) {
  const auto in_turn = [](const Processes& processes) { return shared(processes, GpuUse::kShared); };
  EXPECT_EQ(in_turn(on_hosts({0, 0, 0}, 1)), "0+1 0+1 0+1");
  EXPECT_EQ(in_turn(on_hosts({0, 0, 0}, 2)), "0+1 1+1 0+1");
  EXPECT_EQ(in_turn(on_hosts({0, 0, 0}, 2, 1)), "0+1 1+1 0+1");
  EXPECT_EQ(in_turn(on_hosts({0, 0}, 8)), "0+1 1+1");
  EXPECT_EQ(in_turn(on_hosts({0, 0, 0}, 8, 2)), "0+2 2+2 4+2");
  EXPECT_EQ(in_turn(on_hosts({0, 0, 1}, 4)), "0+1 1+1 0+1");
  EXPECT_EQ(in_turn({process(0, "a", {"x", "y"}, 1), process(1, "a", {"y", "x"}, 1), process(2, "a", {"x"}, 1)}),
            "0+1 0+1 0+1");
  EXPECT_THAT(refusal(on_hosts({0, 0}, 3, 2), GpuUse::kShared),
              HasSubstr("--num_gpus 2: 2 processes share the 3 GPUs of node0; accepted: 0 or 1 (in turn) to 1"));
  EXPECT_THAT(refusal(on_hosts({0, 1}, 2, 3), GpuUse::kShared),
              HasSubstr("--num_gpus 3: 1 process has the 2 GPUs of node0; accepted: 0 or 1 (in turn) to 2"));
  Processes others = on_hosts({0, 1}, 1);
  others[1].models[0] = "other";
  EXPECT_THAT(refusal(others, GpuUse::kShared), HasSubstr("other bits on other of rank 1"));
}

TEST(GpuAssignment, AllGpusAreOfOneModel) {
  Processes processes = on_hosts({0, 1}, 2);
  processes[1].models[1] = "other";
  EXPECT_THAT(refusal(processes), HasSubstr("other bits on other of rank 1 on node1 than on model of rank 0 on node0"));
  for (ProcessGpus& each : processes) each.num_gpus = 1;
  EXPECT_EQ(shared(processes), "0+1 0+1");  // ignored
}

TEST(GpuAssignment, ProcessesAskForTheSame) {
  Processes processes = on_hosts({0, 1}, 2);
  processes[1].num_gpus = 1;
  EXPECT_THAT(refusal(processes), HasSubstr("--num_gpus is 1 for rank 1 on node1 and 0 for rank 0 on node0"));
  processes = on_hosts({0, 1}, 2);
  processes[1].device = "cpu";
  EXPECT_THAT(refusal(processes), HasSubstr("--device is cpu for rank 1 on node1 and cuda for rank 0"));
  processes = on_hosts({0, 1}, 2);
  processes[1].math = "fp32";
  EXPECT_THAT(refusal(processes), HasSubstr("--math is fp32 for rank 1 on node1 and tf32 for rank 0"));
}

TEST(GpuAssignment, OneProcessTellsWhatItSees) {
  const ProcessGroup alone;
  const ProcessGpus none = own_gpus(alone, "cpu", 3, "fp32", GpuUse::kExclusive);
  EXPECT_EQ(none.process, "rank 0");
  EXPECT_EQ(none.num_gpus, 3);
  EXPECT_THAT(none.ids, ::testing::IsEmpty());
  const ProcessGpus own = own_gpus(alone, "auto", 0, "tf32", GpuUse::kExclusive);
  EXPECT_EQ(own.why_none, gpu_unavailable_reason(true));
  EXPECT_EQ(own.ids.size(), own.why_none.empty() ? static_cast<std::size_t>(num_cuda_devices()) : 0u);
  const Processes all = gather_gpus(alone, own);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].device, "auto");
  EXPECT_EQ(all[0].math, "tf32");
  EXPECT_EQ(all[0].why_none, own.why_none);
  EXPECT_EQ(all[0].ids, own.ids);
  EXPECT_EQ(all[0].models, own.models);
}

}  // namespace
}  // namespace terngrad::gpu_assignment_test
