// Kept: what error feedback and momentum keep of a step.
#pragma once

namespace terngrad {

/// What a worker keeps of a tensor once its message is settled.
enum class Kept {
  kUnsent,   // what the message left out: fl(encoded - decoded)
  kEncoded,  // what was encoded
};

}  // namespace terngrad
