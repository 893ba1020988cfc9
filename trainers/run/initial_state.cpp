#include "trainers/run/initial_state.h"

#include <string>

#include "trainers/checkpoint/run_identity.h"
#include "trainers/command_line/option_set.h"
#include "trainers/loop/training_data.h"
#include "trainers/options/train_options.h"

namespace terngrad {
namespace {

/// Extracts an entry that has its own field in CheckpointState; empty if it is missing.
std::string take(RecordedIdentity& entries, const char* key) {
  const auto node = entries.extract(key);
  return node.empty() ? std::string() : node.mapped();
}

}  // namespace

RunIdentity run_identity(const TrainOptions& o, const TrainingData& data, std::uint64_t plan_fingerprint) {
  TrainOptions declared;
  OptionSet options("");
  declare_train_options(options, declared);
  declared = o;
  RunIdentity identity = options.identity();
  const auto add = [&](const char* key, const std::string& of_what, std::string value) {
    identity.push_back({.key = key, .value = std::move(value), .name = of_what + ": " + key});
  };
  add("num_examples", "other training data (--data_dir)", std::to_string(data.num_examples));
  add("data_fingerprint", "other training data (--data_dir)", data.fingerprint);
  add("exchange_fingerprint", "another net or exchange", std::to_string(plan_fingerprint));
  return identity;
}

CheckpointState initial_state(const RunIdentity& identity) {
  CheckpointState state;
  RecordedIdentity entries = recorded_identity(identity);
  state.net = take(entries, "net");
  state.dataset = take(entries, "dataset");
  state.optimizer = take(entries, "optimizer");
  state.num_workers = std::stoi(take(entries, "num_workers"));
  state.seed = std::stoull(take(entries, "seed"));
  state.extra_metadata = std::move(entries);
  return state;
}

}  // namespace terngrad
