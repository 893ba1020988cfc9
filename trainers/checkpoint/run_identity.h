// RunIdentity: the options and data that a resumed run must share with the run that it continues.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace terngrad {

struct CheckpointState;

/// Values that a checkpoint or run directory recorded, by key: net, dataset, optimizer, num_workers, seed, and each
/// entry of CheckpointState::extra_metadata. Most keys are option names.
using RecordedIdentity = std::map<std::string, std::string>;

/// Placeholder for a value that was not recorded.
inline constexpr const char* kNotRecorded = "(none)";

/// A value that a resumed run must share with the run that it continues.
struct IdentityEntry {
  std::string key;
  std::string value;
  std::string name;  // for messages: "--num_nodes"
  /// Called for a different recorded text, or kNotRecorded: true if the run may be continued anyway. Empty: never.
  std::function<bool(const std::string& ours, const std::string& recorded)> is_same = {};
  std::function<std::string(const std::string& value)> shown = {};      // formats a value; empty: unchanged
  std::function<std::string(const std::string& recorded)> advice = {};  // end of the error message
};

/// Entries in the order of comparison: specific ones before fingerprints, so that errors name them.
using RunIdentity = std::vector<IdentityEntry>;

/// All values of a state except for its step.
RecordedIdentity recorded_identity(const CheckpointState& state);
/// Keys and values of the expected identity.
RecordedIdentity recorded_identity(const RunIdentity& expected);

/// Throws unless a run with `expected` can continue the recorded run: each entry of `expected` must be recorded with
/// the same value, unless its is_same accepts another one. Further entries of `recorded` are ignored.
/// @param source  origin of `recorded` for messages, e.g. "checkpoint 'FILE'"
/// @throws UsageError naming the first entry that differs, with both values
void check_same_run(const RunIdentity& expected, const RecordedIdentity& recorded, std::string_view source);

/// Compares --max_steps, which a resumed run may change; its learning-rate schedule then uses the new number.
/// @param is_given  true if the user gave the option in this start
/// @returns a line for the user with both numbers if they differ, else an empty string
/// @throws UsageError if they differ and the new number is only the default
std::string check_max_steps(const RecordedIdentity& recorded, std::int64_t max_steps, bool is_given);

}  // namespace terngrad
