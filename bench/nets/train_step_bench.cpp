// Training steps on a GPU, as a whole and in parts.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/cuda_harness.h"
#include "bench/harness.h"
#include "bench/nets/train_step.h"
#include "bench/nets/train_step_parts.h"
#include "bench/nets/train_step_subject.h"
#include "kernels/runtime/captured_graph.h"
#include "kernels/runtime/stream_timer.h"
#include "nets/device_net.h"
#include "trainers/loop/device_replica.h"

namespace terngrad::bench {
namespace {

/// Copies of a part in a graph, so that the start of the graph counts for little.
constexpr int kRepeats = 16;

/// Work that is replayed as a graph, and the time of one run of it in each round.
class TimedGraph {
 public:
  TimedGraph(Stream& stream, const std::function<void()>& submit)
      : repeats_(std::min(kRepeats, cuda_measurement().max_runs)), graph_(stream, [&] {
          for (int i = 0; i < repeats_; ++i) submit();
        }) {}
  void run(Stream& stream) {
    timer_.start(stream);
    graph_.launch(stream);
    timer_.stop(stream);
    seconds_.push_back(timer_.seconds() / repeats_);
  }
  double microseconds() const { return median(seconds_) * 1e6; }

 private:
  int repeats_;
  CapturedGraph graph_;
  StreamTimer timer_{Device::cuda()};
  std::vector<double> seconds_;
};

struct NamedPart {
  const char* name;
  void (TrainStepParts::*submit)();
};

/// In the order in which a step runs them.
constexpr NamedPart kParts[] = {
    {"examples_us", &TrainStepParts::submit_examples}, {"compute_us", &TrainStepParts::submit_compute},
    {"decay_us", &TrainStepParts::submit_transform},   {"encode_us", &TrainStepParts::submit_encode},
    {"decode_us", &TrainStepParts::submit_decode},     {"update_us", &TrainStepParts::submit_update},
};

/// The steps of a run, in bursts without the host.
class Burst {
 public:
  explicit Burst(const TrainStepSubject& subject)
      : inputs_(static_cast<std::size_t>(std::min(64, cuda_measurement().max_runs)),
                cuda::StepInput{.rates = {1e-4f}, .ema_decay = 0.9999f}),
        replica_(make_train_step(subject, static_cast<int>(inputs_.size()))) {}
  /// @returns true if every step was applied and had a loss that is a number
  bool run() {
    Stream& stream = replica_->net().stream();
    timer_.start(stream);
    replica_->prepare(first_step_, inputs_);
    std::atomic<bool> lost = false;
    const auto outcomes = replica_->run(
        first_step_, static_cast<int>(inputs_.size()), [](std::uint64_t) { return std::size_t{0}; }, lost, [] {});
    timer_.stop(stream);
    seconds_.push_back(timer_.seconds() / static_cast<double>(inputs_.size()));
    first_step_ += inputs_.size();
    return std::ranges::all_of(outcomes, [](const StepOutcome& step) {
      return !step.skipped && std::ranges::all_of(step.losses, [](const WorkerLoss& worker) {
        return std::isfinite(worker.entropy_loss);
      });
    });
  }
  /// The first steps fill tables and are captured.
  void warm_up() {
    run();
    seconds_.clear();
  }
  double seconds() const { return median(seconds_); }

 private:
  std::vector<cuda::StepInput> inputs_;
  std::unique_ptr<DeviceReplica> replica_;
  StreamTimer timer_{Device::cuda()};
  std::uint64_t first_step_ = 0;
  std::vector<double> seconds_;
};

void run(benchmark::State& state, const TrainStepSubject& subject) {
  Stream stream(Device::cuda());
  TrainStepParts parts(subject, stream);
  const auto submit = [&](std::initializer_list<int> chosen) {
    for (const int part : chosen) (parts.*kParts[part].submit)();
  };
  submit({0, 1, 2, 3, 4, 5});
  if (!parts.mean_is_right()) return fail(state, "wrong result");
  std::vector<TimedGraph> graphs;
  for (const NamedPart& part : kParts) graphs.emplace_back(stream, [&] { (parts.*part.submit)(); });
  TimedGraph all(stream, [&] { submit({0, 1, 2, 3, 4, 5}); });
  TimedGraph no_exchange(stream, [&] { submit({0, 1, 2, 5}); });
  Burst burst(subject);
  burst.warm_up();
  for (auto _ : state) {
    for (TimedGraph& graph : graphs) graph.run(stream);
    all.run(stream);
    no_exchange.run(stream);
    if (!burst.run()) return fail(state, "a step was not applied");
    state.SetIterationTime(burst.seconds());
  }
  double sum = 0;
  std::size_t longest = 0;
  for (std::size_t i = 0; i < graphs.size(); ++i) {
    state.counters[kParts[i].name] = graphs[i].microseconds();
    sum += graphs[i].microseconds();
    if (graphs[i].microseconds() > graphs[longest].microseconds()) longest = i;
  }
  state.counters["sum_us"] = sum;
  state.counters["graph_us"] = all.microseconds();
  state.counters["no_exchange_us"] = no_exchange.microseconds();
  state.counters["step_us"] = burst.seconds() * 1e6;
  state.counters["steps_per_s"] = 1 / burst.seconds();
  state.counters["examples_per_s"] = subject.batch_size / burst.seconds();
  state.SetLabel(std::string("longest: ") + kParts[longest].name);
}

const Registration registration(__FILE__, [](Rows&) {
  if (num_cuda_devices() == 0 || !device_nets_unavailable_reason().empty()) return;
  for (const char* const net : {"lenet", "cifar10_alexnet"}) {
    const int own_batch = std::string(net) == "lenet" ? 64 : 128;  // those of the original's run scripts
    const int batch = cuda_measurement().step_examples > 0 ? cuda_measurement().step_examples : own_batch;
    for (const int workers : {1, 2, 8}) {
      if (batch % workers != 0) continue;
      for (const MathMode math : {MathMode::kTf32, MathMode::kFp32}) {
        const std::string name = std::string("train_step/cuda/") + (math == MathMode::kTf32 ? "tf32/" : "fp32/") + net +
                                 "/batch:" + std::to_string(batch) + "/workers:" + std::to_string(workers);
        const TrainStepSubject subject{.net = net, .batch_size = batch, .num_workers = workers, .math = math};
        register_cuda_function(name, [=](benchmark::State& state) { run(state, subject); });
      }
    }
  }
});

}  // namespace
}  // namespace terngrad::bench
