// Options of terngrad_advise, and their checks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trainers/commands/advised_model.h"

namespace terngrad {

class OptionSet;

/// Options of terngrad_advise.
struct AdviseOptions : AdvisedModelOptions {
  int num_nodes = 0;
  int workers_per_group = 0;  // after check_advise_options: 1, or 0 without a launch, for none
  double compute_ms = -1;
  double bandwidth_mbit = 0;
  double latency_us = 50;
  std::vector<std::string> codecs = {"t2", "t5"};  // in addition to the baselines
  bool quantize_logits = false;
  double clip_factor = 2.5;
  int repetitions = 5;
  int threads = 0;
  double exchange_timeout = 600;
  std::string json;
  int num_launched = 1;  // number of launched processes
};

void declare_advise_options(OptionSet& options, AdviseOptions& o);

/// Resolves options whose defaults depend on the launch, after parsing.
/// @param host_of_rank  host of each launched process
/// @throws UsageError naming an option that cannot be honoured
void check_advise_options(const OptionSet& options, AdviseOptions& o, std::span<const std::string> host_of_rank);

}  // namespace terngrad
