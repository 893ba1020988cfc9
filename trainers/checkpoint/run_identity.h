// RunIdentity: what two starts must agree in to be one run.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace terngrad {

/// The identity's "strategy" of all strategies but async, which have the same bits.
inline constexpr const char* kSynchronousStrategies = "synchronous";

struct CheckpointState;

/// Values by name: net, dataset, optimizer, num_workers, seed, and each entry of CheckpointState::more. Most are named
/// as the option that sets them.
using RunIdentity = std::map<std::string, std::string>;

/// All of a state but its step.
RunIdentity identity_of(const CheckpointState& state);

/// Throws unless a run with `expected` can continue with what `recorded` says: each entry of `expected` must be equal;
/// further ones of `recorded` may be anything. Two entries are left out: max_steps, see check_max_steps, and
/// on_nonfinite if `recorded` has "stop" there: such a run has met nothing yet that the policies treat differently. A
/// run on GPUs records no threads_per_worker and one on a CPU no math, and runs before there were specs of codecs no
/// codec_spec: they may continue with any.
/// Fingerprints are compared last, when all that has its own name is equal.
/// @param source  what recorded it, e.g. "checkpoint 'FILE'"
/// @throws UsageError that names the option (or, for data, what differs) with both values
void check_same_run(const RunIdentity& expected, const RunIdentity& recorded, std::string_view source);

/// Compares --max_steps, which a resumed run may change; that stretches its learning-rate schedule.
/// @param is_given  the user set it for this start
/// @returns a line that names both numbers if they differ, else nothing
/// @throws UsageError if they differ and the new one is only the default
std::string check_max_steps(const RunIdentity& recorded, std::int64_t max_steps, bool is_given);

}  // namespace terngrad
