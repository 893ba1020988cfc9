// Kept: what error feedback, momentum and DGC keep of a step.
#pragma once

namespace terngrad {

/// What a worker keeps of a tensor once its message is settled.
enum class MemoryUpdate {
  kUnsent,   // what the message left out: fl(encoded - decoded)
  kEncoded,  // what was encoded
  kMasked,  // what is given in place of what was encoded, and 0 of elements that the message says are not 0; of a codec
            // that loses nothing all of it
};

}  // namespace terngrad
