// The hook that writes gradients to safetensors files, for terngrad_codec and other programs.
#pragma once

#include <cstdint>
#include <memory>

#include "trainers/io/folder.h"
#include "trainers/launch/progress.h"
#include "trainers/loop/hook.h"

namespace terngrad {

/// Options of make_gradient_dump_hook.
struct GradientDumpOptions {
  Folder run;  // run directory
  std::uint64_t dump_steps = 1;
  bool continues_after_errors = false;  // true: show an error of writing a file; false: throw it
};

/// Every `dump_steps` steps the chief writes gradients/step-0000000123.safetensors in the run directory, 123 being the
/// steps done: float32 tensors worker-0000/<tensor> in the order of workers, then of the layout, after gradient
/// transforms and before any memory (StepView::worker_gradient), also for skipped steps. Metadata: step, num_workers
/// and net. Files are written atomically. Other ranks send their workers' gradients with make_gradient_sender_hook; the
/// chief holds one gradient at a time. Equal runs write equal bytes for any number of ranks; a resumed run rewrites the
/// files of repeated steps.
/// @param display  must outlive the hook
std::unique_ptr<Hook> make_gradient_dump_hook(GradientDumpOptions options, ProgressDisplay& display);

/// For the other ranks: sends the gradients of their workers in the same steps.
std::unique_ptr<Hook> make_gradient_sender_hook(std::uint64_t dump_steps);

}  // namespace terngrad
