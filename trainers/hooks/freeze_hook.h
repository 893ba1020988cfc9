// The hook that freezes tensors.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainers/loop/hook.h"

namespace terngrad {

/// Freezes the tensors that match one of the patterns, up to step `until` (0: to the end), and trains them from there
/// on. A resumed run has the same tensors frozen.
/// @throws InvalidArgument when the run begins, if a pattern matches no tensor or all tensors are frozen
std::unique_ptr<Hook> make_freeze_hook(std::vector<std::string> patterns, std::uint64_t until);

}  // namespace terngrad
