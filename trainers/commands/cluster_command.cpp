#include "trainers/commands/cluster_command.h"

#include <iostream>
#include <utility>

#include "kernels/runtime/errors.h"
#include "trainers/commands/cluster_advice.h"
#include "trainers/commands/cluster_file.h"
#include "trainers/io/atomic_file.h"
#include "trainers/launch/command_main.h"

namespace terngrad {
namespace {

ClusterFile cluster_of(const std::string& path) {
  try {
    return read_cluster_file(path);
  } catch (const Error& error) {
    TERNGRAD_THROW(UsageError, "--cluster: ", error.what());
  }
}

ClusterAdvice advice_of_file(const std::string& path) {
  ClusterFile file = cluster_of(path);
  try {
    return make_cluster_advice(std::move(file));
  } catch (const InvalidArgument& error) {
    TERNGRAD_THROW(UsageError, "--cluster ", path, ": ", error.what());
  }
}

}  // namespace

int advise_on_cluster(const std::string& file, const std::string& json) {
  const ClusterAdvice advice = advice_of_file(file);
  std::cout << to_text(advice);
  if (!json.empty()) write_file_atomically(json, to_json(advice).dump(2) + "\n");
  return kExitSuccess;
}

}  // namespace terngrad
