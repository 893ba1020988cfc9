#include "trainers/launch/cluster_environment.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/runtime/errors.h"

namespace terngrad {
namespace {

using Json = nlohmann::json;

/// The cluster as its variables describe it.
struct Cluster {
  std::string variables;                  // names of those that describe it
  std::vector<std::string> workers = {};  // addresses in the order of ranks, the chief's first
  std::vector<std::string> servers = {};
  int num_chiefs = 0;             // those of `workers` with the job "chief" or "master"
  std::string job = {};           // this process's job: "worker", "ps"; empty if not said
  std::optional<int> index = {};  // its number within the job

  int size() const { return static_cast<int>(workers.size() + servers.size()); }

  /// The rank of this process, if the variables say it.
  std::optional<int> rank() const {
    if (!index) return std::nullopt;
    if (job == "chief" || job == "master") return *index;
    if (job == "worker") return num_chiefs + *index;
    if (job == "ps") return static_cast<int>(workers.size()) + *index;
    return std::nullopt;
  }
};

std::string value_of(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr ? "" : value;
}

std::vector<std::string> addresses_in(std::string_view list) {
  std::vector<std::string> addresses;
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (end > 0) addresses.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return addresses;
}

std::optional<Cluster> cluster_of_hosts() {
  Cluster cluster{.variables = "PS_HOSTS, WORKER_HOSTS",
                  .workers = addresses_in(value_of("WORKER_HOSTS")),
                  .servers = addresses_in(value_of("PS_HOSTS"))};
  if (cluster.size() == 0) return std::nullopt;
  cluster.job = value_of("JOB_NAME");
  const std::string index = value_of("TASK_INDEX");
  if (!index.empty()) {
    int number = 0;
    const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), number);
    if (error != std::errc() || end != index.data() + index.size() || number < 0) {
      TERNGRAD_THROW(UsageError, "TASK_INDEX: '", index, "' is refused, expected a number of at least 0");
    }
    cluster.index = number;
  }
  return cluster;
}

std::optional<Cluster> cluster_of_tf_config() {
  const std::string text = value_of("TF_CONFIG");
  if (text.empty()) return std::nullopt;
  Cluster cluster{.variables = "TF_CONFIG"};
  try {
    const Json config = Json::parse(text);
    const Json jobs = config.value("cluster", Json::object());
    const auto append = [&jobs](const char* job, std::vector<std::string>& to) {
      const auto addresses = jobs.value(job, std::vector<std::string>());
      to.insert(to.end(), addresses.begin(), addresses.end());
    };
    append("chief", cluster.workers);
    append("master", cluster.workers);
    cluster.num_chiefs = static_cast<int>(cluster.workers.size());
    append("worker", cluster.workers);
    append("ps", cluster.servers);
    const Json task = config.value("task", Json::object());
    cluster.job = task.value("type", std::string());
    if (task.contains("index")) cluster.index = task.at("index").get<int>();
  } catch (const Json::exception& error) {
    TERNGRAD_THROW(UsageError, "TF_CONFIG: is not a JSON object with \"cluster\" and \"task\": ", error.what());
  }
  return cluster;
}

/// The hosts of addresses `host:port` as Open MPI's --host takes them: each once, with the number of its processes.
std::string hosts_of(const std::vector<std::string>& addresses) {
  std::vector<std::pair<std::string, int>> hosts;
  for (const std::string& address : addresses) {
    const std::string host = address.substr(0, address.rfind(':'));
    const auto known = std::ranges::find(hosts, host, &std::pair<std::string, int>::first);
    if (known == hosts.end()) {
      hosts.emplace_back(host, 1);
    } else {
      ++known->second;
    }
  }
  std::string list;
  for (const auto& [host, count] : hosts) {
    list += (list.empty() ? "" : ",") + host + (count == 1 ? "" : ":" + std::to_string(count));
  }
  return list;
}

std::string launch_of(const Cluster& cluster) {
  std::vector<std::string> addresses = cluster.workers;
  addresses.insert(addresses.end(), cluster.servers.begin(), cluster.servers.end());
  std::string command = "mpirun -np " + std::to_string(cluster.size()) + " --host " + hosts_of(addresses) +
                        " terngrad_train --num_nodes " + std::to_string(cluster.workers.size());
  if (!cluster.servers.empty()) command += " --strategy ps --num_servers " + std::to_string(cluster.servers.size());
  return command;
}

void check(const Cluster& cluster, int rank, int size) {
  if (cluster.size() <= 1) return;
  const std::string remedy = "; one command starts all of it: " + launch_of(cluster) +
                             " (with your other options); to train otherwise unset " + cluster.variables;
  if (size == 1) {
    TERNGRAD_THROW(UsageError, cluster.variables, ": name a cluster of ", cluster.size(),
                   " processes, and this one was started alone", remedy);
  }
  if (cluster.size() != size) {
    TERNGRAD_THROW(UsageError, cluster.variables, ": name a cluster of ", cluster.size(),
                   " processes, this launch has ", size, remedy);
  }
  if (cluster.rank().value_or(rank) != rank) {
    TERNGRAD_THROW(UsageError, cluster.variables, ": make this process ", cluster.job, " ", *cluster.index, ", rank ",
                   *cluster.rank(), " of a launch, which gave it rank ", rank, remedy);
  }
}

}  // namespace

void check_cluster_environment(int rank, int size) {
  for (const auto& cluster : {cluster_of_tf_config(), cluster_of_hosts()}) {
    if (cluster) check(*cluster, rank, size);
  }
}

}  // namespace terngrad
