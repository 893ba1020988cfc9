// check_cluster_environment: compares the cluster that TensorFlow's or TensorLayer's variables describe with the
// launch.
#pragma once

namespace terngrad {

/// Reads the environment variables that give TensorFlow and TensorLayer a cluster: TF_CONFIG (JSON with `cluster` and
/// `task`), or PS_HOSTS and WORKER_HOSTS (comma-separated hosts) with JOB_NAME and TASK_INDEX. JOB_NAME alone is not
/// read, since batch systems set it too. The cluster's processes are ranks in the order chief or master, workers,
/// parameter servers; a cluster of one process is no cluster.
/// @param rank  rank of this process in its launch of `size` processes; 0 of 1 without a launcher
/// @throws UsageError, naming the variables, if a value cannot be read; if this process was started alone, with the
/// mpirun command that starts the cluster; or if the cluster has another size than the launch, or this process another
/// rank in it
void check_cluster_environment(int rank, int size);

}  // namespace terngrad
