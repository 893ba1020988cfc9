// The enumerations that options of terngrad_train choose from.
#pragma once

#include "compress/exchange/downlink_codec.h"
#include "compress/exchange/on_nonfinite.h"
#include "trainers/checkpoint/on_save_error.h"
#include "trainers/optim/schedule.h"

namespace terngrad {

enum class TrainStrategy { kAuto, kSimple, kReplicated, kParameterServers, kAsync };

/// What workers get from servers.
enum class Pull { kGradient, kParameters };

/// How messages travel: an ExchangeAlgorithm, or an all-reduce of the MPI library.
enum class TrainExchange { kAuto, kAllGather, kScatterReduce, kIntegerSum, kVendor };

/// What the update is given of the workers' gradients.
enum class Reduce { kAverage, kSum };

/// Whether exchanges run beside the backward pass.
enum class Overlap { kAuto, kOn, kOff };

/// Whether training images are distorted at random.
enum class Augment { kOn, kOff };

/// The long names of two memories.
enum class ErrorFeedback { kAuto, kTrue, kFalse };

/// The order of an epoch's examples.
enum class Shuffle { kExact, kWindow };

}  // namespace terngrad
