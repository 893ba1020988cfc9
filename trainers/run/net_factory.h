// The nets of terngrad_train in host memory, by its options.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compress/comm/communicator.h"
#include "trainers/options/train_devices.h"

namespace terngrad {

class Dataset;
class Net;
struct NetSpec;
struct TrainOptions;

NetSpec net_spec_of(const TrainOptions& o);

/// A net in host memory.
/// @param devices  what computes it; GPUs in the order of its workers
/// @param notes    appended to: what was found out about GPUs
/// @throws UsageError for a net that the data set does not fit
std::unique_ptr<Net> make_host_net(const TrainOptions& o, const Dataset& dataset, const WorkerGroup& workers,
                                   const TrainDevices& devices, std::vector<std::string>& notes);

}  // namespace terngrad
