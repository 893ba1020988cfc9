#include "trainers/checkpoint/run_identity.h"

#include "kernels/runtime/errors.h"
#include "trainers/checkpoint/checkpoint.h"

namespace terngrad {

RecordedIdentity recorded_identity(const CheckpointState& state) {
  RecordedIdentity identity = state.extra_metadata;
  identity["net"] = state.net;
  identity["dataset"] = state.dataset;
  identity["optimizer"] = state.optimizer;
  identity["num_workers"] = std::to_string(state.num_workers);
  identity["seed"] = std::to_string(state.seed);
  return identity;
}

RecordedIdentity recorded_identity(const RunIdentity& expected) {
  RecordedIdentity identity;
  for (const IdentityEntry& entry : expected) identity[entry.key] = entry.value;
  return identity;
}

void check_same_run(const RunIdentity& expected, const RecordedIdentity& recorded, std::string_view source) {
  for (const IdentityEntry& entry : expected) {
    const auto found = recorded.find(entry.key);
    const std::string theirs = found == recorded.end() ? kNotRecorded : found->second;
    if (entry.value == theirs || (entry.is_same && entry.is_same(entry.value, theirs))) continue;
    const auto shown = [&](const std::string& value) { return entry.shown ? entry.shown(value) : value; };
    const std::string advice = entry.advice ? entry.advice(theirs) : "";
    TERNGRAD_THROW(UsageError, "cannot continue from ", source, ": this run has ", entry.name, " '", shown(entry.value),
                   "', there it is '", shown(theirs), "'", advice.empty() ? "" : "; to continue the run, give ",
                   advice);
  }
}

std::string check_max_steps(const RecordedIdentity& recorded, std::int64_t max_steps, bool is_given) {
  const auto entry = recorded.find("max_steps");
  if (entry == recorded.end() || entry->second == std::to_string(max_steps)) return "";
  if (!is_given) {
    TERNGRAD_THROW(UsageError, "--max_steps: the run had ", entry->second, "; give it again, or another number");
  }
  return "--max_steps was " + entry->second + " and is " + std::to_string(max_steps) +
         " now: the learning-rate schedule goes by the new number";
}

}  // namespace terngrad
