// Enumerations for options of terngrad_train; choice_words.h has their words.
#pragma once

#include "compress/plan/exchange_choices.h"
#include "trainers/checkpoint/on_save_error.h"
#include "trainers/optim/schedule.h"

namespace terngrad {

/// --strategy: training synchronously without exchange, with an exchange, with parameter servers, or asynchronously.
enum class TrainStrategy { kAuto, kSimple, kReplicated, kParameterServers, kAsync };

/// --pull: content of the servers' answers to workers.
enum class Pull { kGradient, kParameters };

/// --exchange: an ExchangeAlgorithm, or the all-reduce of the MPI library.
enum class TrainExchange { kAuto, kAllGather, kScatterReduce, kIntegerSum, kVendor };

/// --reduce: average or sum of the workers' gradients for the update.
enum class Reduce { kAverage, kSum };

/// --overlap: run exchanges concurrently with the backward pass or after it.
enum class Overlap { kAuto, kOn, kOff };

/// --augment: distort training images at random or not.
enum class Augment { kOn, kOff };

/// --error_feedback: `true` selects the memory "ef", `false` "none".
enum class ErrorFeedback { kAuto, kTrue, kFalse };

/// --shuffle: the order of an epoch's examples.
enum class Shuffle { kExact, kWindow };

}  // namespace terngrad
