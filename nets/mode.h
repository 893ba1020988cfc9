// Modes in which layers are created, on every backend.
#pragma once

namespace terngrad {

/// Passes that a net is made for.
enum class Mode {
  kTraining,   // forward and backward
  kInference,  // forward only
};

/// Selects computing the gradients of a layer's inputs, which are not needed for the image, for example.
enum class InputGradient { kSkipped, kWanted };

}  // namespace terngrad
