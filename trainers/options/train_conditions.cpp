#include "trainers/options/train_conditions.h"

#include "datasets/dataset.h"
#include "trainers/options/async_options.h"
#include "trainers/options/train_devices.h"
#include "trainers/options/train_options.h"

namespace terngrad {

bool computes_on_cpu(const TrainOptions& o) { return devices_of(o).is_cpu_run(); }

bool reads_records(const TrainOptions& o) { return !o.benchmark_mode && is_of_records(o.dataset); }

bool has_evaluator(const TrainOptions& o) { return o.num_launched > 1 && o.last_rank_evaluates; }

bool compresses(const TrainOptions& o) {
  if (o.codec_name() != "fp32") return true;
  return std::ranges::any_of(chosen_codecs(o), [](const ChosenCodec& c) { return c.spec.name != "fp32"; });
}

std::string dump_unsupported_reason(const TrainOptions& o) {
  if (is_async(o)) return "--strategy replicated or ps; pushes to an asynchronous server are not dumped";
  if (o.chosen_strategy() == TrainStrategy::kSimple)
    return "--num_nodes 2 or more, or --strategy replicated; one worker sends nothing";
  if (o.workers_per_group > 1) return "--workers_per_group 1; messages of groups of workers are not dumped";
  if (o.exchange == TrainExchange::kVendor)
    return "an --exchange other than vendor, which adds numbers and sends no messages";
  if (o.exchange == TrainExchange::kIntegerSum) {
    return "--exchange all_gather or scatter_reduce; integer_sum adds codes on their way, without messages";
  }
  if (!o.trains || computes_on_cpu(o) || o.exchanges_on_host()) return "";
  return "--device cpu, or --pull parameters; GPUs send each other payloads without messages around them";
}

OptionNeed data_that_is_read(const TrainOptions& o) {
  return {"a run without --benchmark_mode, which reads no data", [&o] { return !o.benchmark_mode; }};
}

OptionNeed data_in_files(const TrainOptions& o) {
  return {"a --dataset that is read from files", [&o] { return !is_built_in(o.dataset); },
          [&o] { return o.dataset + " is built in"; }};
}

OptionNeed window_shuffle(const TrainOptions& o) {
  return {"--shuffle window", [&o] { return o.shuffle == Shuffle::kWindow; }};
}

OptionNeed gpu(const TrainOptions& o) {
  return {"a GPU (--device cuda)", [&o] { return !o.trains || !computes_on_cpu(o); }};
}

OptionNeed steps(const TrainOptions& o) {
  return {"--max_steps 1 or more", [&o] { return o.max_steps > 0; }, [] { return "--max_steps is 0"; }};
}

OptionNeed several_processes(const TrainOptions& o) {
  return {"several processes (mpirun -np N)", [&o] { return o.num_launched > 1; }};
}

OptionNeed several_replicas(const TrainOptions& o) {
  return {"several processes (mpirun -np N), or several GPUs (--num_gpus M) that exchange gradients",
          [&o] { return o.num_launched > 1 || (o.num_gpus > 1 && !o.exchanges_on_host()); }};
}

OptionNeed several_workers(const TrainOptions& o) {
  return {"--num_nodes 2 or more: one worker shares and sends nothing", [&o] { return o.num_nodes > 1; }};
}

OptionNeed own_evaluation(const TrainOptions& o) {
  return {
      "a run that evaluates itself, without --last_rank_evaluates (which evaluates each checkpoint, see --save_iter)",
      [&o] { return !has_evaluator(o); }};
}

OptionNeed exchanging_strategy(const TrainOptions& o) {
  return {"--strategy replicated or ps: one worker exchanges nothing unless asked to",
          [&o] { return o.chosen_strategy() != TrainStrategy::kSimple; }};
}

OptionNeed synchronous_strategy(const TrainOptions& o) {
  return {"--strategy replicated or ps", [&o] { return !is_async(o); }};
}

OptionNeed async_strategy(const TrainOptions& o) {
  return {"--strategy async", [&o] { return is_async(o); }};
}

OptionNeed parameter_servers(const TrainOptions& o) {
  return {"--strategy ps", [&o] { return o.strategy == TrainStrategy::kParameterServers; }};
}

OptionNeed pulled_gradients(const TrainOptions& o) {
  return {"--pull gradient; with parameters the replicas take over the servers' in every step",
          [&o] { return !o.pulls_parameters(); }};
}

OptionNeed own_exchange(const TrainOptions& o) {
  return {"an --exchange other than vendor", [&o] { return o.exchange != TrainExchange::kVendor; }};
}

OptionNeed lossy_codec(const TrainOptions& o) {
  return {"a codec other than fp32", [&o] { return o.codec_name() != "fp32"; }};
}

OptionNeed ternary_codec(const TrainOptions& o) {
  return {"the codec ternary (--grad_bits 1)", [&o] { return uses_ternary(o); }};
}

OptionNeed clipping(const TrainOptions& o) {
  return {"a --clip_factor above 0", [&o] {
            return any_ternary(chosen_codecs(o), [](const ChosenCodec& c) { return c.value("clip_factor") != "0"; });
          }};
}

}  // namespace terngrad
