// The hook that writes gradients to files, for terngrad_codec and for programs that read safetensors.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/io/folder.h"
#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"

namespace terngrad {

struct GradientDumpOptions {
  Folder run;  // the run's
  std::uint64_t dump_steps = 1;
  bool continues_after_errors = false;  // a file that cannot be written is shown, else the error is passed on
};

/// After every `dump_steps` steps the chief writes gradients/step-0000000123.safetensors in the run's folder, 123 being
/// the steps done: float32 tensors worker-0000/<tensor>, workers in order and each one's tensors in that of the layout,
/// as they were after gradient transforms and before any memory (StepView::worker_gradient), also of a step that was
/// skipped. Metadata: step, num_workers and net. A file is complete or not there. Of workers of other ranks, which send
/// them by make_gradient_sender_hook, the chief holds one at a time. Equal runs write equal bytes, for any number of
/// ranks; a resumed run writes the files of the steps that it repeats again. Changes nothing of the run.
/// @param display  outlives the hook
std::unique_ptr<Hook> make_gradient_dump_hook(GradientDumpOptions options, ProgressDisplay& display);

/// For the other ranks: sends the gradients of their workers at the same times.
std::unique_ptr<Hook> make_gradient_sender_hook(std::uint64_t dump_steps);

}  // namespace terngrad
