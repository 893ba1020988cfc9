// What the layers of a net are made for, on every backend.
#pragma once

namespace terngrad {

enum class Mode {
  kTraining,   // forward and backward
  kInference,  // forward only
};

/// Whether any gradient of a layer's inputs is wanted; the image, for one, has no use for its own.
enum class InputGradient { kSkipped, kWanted };

}  // namespace terngrad
