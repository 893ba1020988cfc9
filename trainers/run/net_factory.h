// Creates nets in host memory from the options of terngrad_train.
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

/// The spec of --net with its options.
NetSpec net_spec_of(const TrainOptions& o);

/// Creates a net with parameters and gradients in host memory.
/// @param devices  devices that compute its passes; GPUs in the order of its workers
/// @param notes    out: remarks about GPUs are appended
/// @throws UsageError if the data set does not fit the net
std::unique_ptr<Net> make_host_net(const TrainOptions& o, const Dataset& dataset, const WorkerGroup& workers,
                                   const TrainDevices& devices, std::vector<std::string>& notes);

}  // namespace terngrad
