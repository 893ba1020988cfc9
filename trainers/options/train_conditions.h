// Conditions that several options of terngrad_train need. They read the options when evaluated.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "trainers/command_line/option_declaration.h"
#include "trainers/options/chosen_codecs.h"

namespace terngrad {

struct TrainOptions;

/// True if the run computes on the CPU. @throws UsageError as devices_of
bool computes_on_cpu(const TrainOptions& o);
/// True if examples are read from records in shards.
bool reads_records(const TrainOptions& o);
/// True if a rank of the launch only evaluates.
bool has_evaluator(const TrainOptions& o);
/// True if any tensor may be sent in another form than fp32.
bool compresses(const TrainOptions& o);

/// True if some codec is ternary and `holds` returns true for it.
template <class Holds>
bool any_ternary(const std::vector<ChosenCodec>& codecs, const Holds& holds) {
  return std::ranges::any_of(codecs, [&](const ChosenCodec& c) { return c.is_ternary() && holds(c); });
}

/// The unmet need of --dump_messages, an exchange that sends messages; empty if it is met.
std::string dump_unsupported_reason(const TrainOptions& o);

// Needs, named after the condition.
OptionNeed data_that_is_read(const TrainOptions& o);
OptionNeed data_in_files(const TrainOptions& o);
OptionNeed window_shuffle(const TrainOptions& o);
OptionNeed gpu(const TrainOptions& o);
OptionNeed steps(const TrainOptions& o);
OptionNeed several_processes(const TrainOptions& o);
OptionNeed several_replicas(const TrainOptions& o);
OptionNeed several_workers(const TrainOptions& o);
OptionNeed own_evaluation(const TrainOptions& o);
OptionNeed exchanging_strategy(const TrainOptions& o);
OptionNeed synchronous_strategy(const TrainOptions& o);
OptionNeed async_strategy(const TrainOptions& o);
OptionNeed parameter_servers(const TrainOptions& o);
OptionNeed pulled_gradients(const TrainOptions& o);
OptionNeed own_exchange(const TrainOptions& o);
OptionNeed lossy_codec(const TrainOptions& o);
OptionNeed ternary_codec(const TrainOptions& o);
OptionNeed clipping(const TrainOptions& o);

}  // namespace terngrad
