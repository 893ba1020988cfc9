// The training step that benchmarks run on a GPU, as runs train with it.
#pragma once

#include <memory>

namespace terngrad {

class DeviceReplica;

namespace bench {

struct TrainStepSubject;

/// The steps of a run, as terngrad_train puts them together.
/// @param max_burst  most steps that run without the host
std::unique_ptr<DeviceReplica> make_train_step(const TrainStepSubject& subject, int max_burst);

}  // namespace bench
}  // namespace terngrad
