// RunIdentity: what two starts must agree in to be one run.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace terngrad {

struct CheckpointState;

/// What a checkpoint or a run directory recorded of a run, by key: net, dataset, optimizer, num_workers, seed, and each
/// entry of CheckpointState::extra_metadata. Most keys are the names of the options that set them.
using RecordedIdentity = std::map<std::string, std::string>;

/// Stands for the value of a key that was not recorded.
inline constexpr const char* kNotRecorded = "(none)";

/// Something that a start has in common with the run that it continues.
struct IdentityEntry {
  std::string key;
  std::string value;
  std::string name;  // for messages: "--num_nodes"
  /// True if a run may be continued from another recorded text, or from kNotRecorded. Empty: from none.
  std::function<bool(const std::string& ours, const std::string& recorded)> is_same = {};
  std::function<std::string(const std::string& value)> shown = {};      // a value for messages; empty: as it is
  std::function<std::string(const std::string& recorded)> advice = {};  // ends the message of a difference
};

/// In the order in which they are compared: differences with a name of their own before fingerprints.
using RunIdentity = std::vector<IdentityEntry>;

/// All of a state but its step.
RecordedIdentity recorded_identity(const CheckpointState& state);
/// The keys and values of what is expected.
RecordedIdentity recorded_identity(const RunIdentity& expected);

/// Throws unless a run with `expected` can continue what was recorded: each entry of `expected` must be there and the
/// same, unless its is_same allows another; further ones of `recorded` may be anything.
/// @param source  what recorded it, e.g. "checkpoint 'FILE'"
/// @throws UsageError that names the first entry that differs, with both values
void check_same_run(const RunIdentity& expected, const RecordedIdentity& recorded, std::string_view source);

/// Compares --max_steps, which a resumed run may change; that stretches its learning-rate schedule.
/// @param is_given  the user set it for this start
/// @returns a line that names both numbers if they differ, else nothing
/// @throws UsageError if they differ and the new one is only the default
std::string check_max_steps(const RecordedIdentity& recorded, std::int64_t max_steps, bool is_given);

}  // namespace terngrad
