// GpuRange: the GPUs that a process of a run uses.
#pragma once

namespace terngrad {

/// A range of the GPUs that a process sees.
struct GpuRange {
  int first = 0;
  int count = 1;              // 0: this process is a server of others, which compute on GPUs
  bool ignored = false;       // true if no process of the run computes on GPUs
  bool joins_others = false;  // true if they communicate with GPUs of other processes of the run
};

}  // namespace terngrad
