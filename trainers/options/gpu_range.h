// GpuRange: which of its GPUs a process of a run uses.
#pragma once

namespace terngrad {

/// GPUs of those that a process sees.
struct GpuRange {
  int first = 0;
  int count = 1;              // 0: this process serves others, which compute on GPUs
  bool ignored = false;       // no process of the run computes on GPUs, whatever this one sees
  bool joins_others = false;  // those of other processes of the run
};

}  // namespace terngrad
