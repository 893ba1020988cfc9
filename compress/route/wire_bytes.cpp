#include "compress/route/wire_bytes.h"

namespace terngrad {

double fp32_all_reduce_bytes(std::int64_t num_elements, int num_workers) {
  return 8.0 * static_cast<double>(num_elements) * (num_workers - 1) / num_workers;
}

namespace {

NodeBytes mean_of(const LegBytes& sum, std::int64_t num_nodes) {
  if (num_nodes == 0) return {};
  const auto count = static_cast<double>(num_nodes);
  return {static_cast<double>(sum.sent) / count, static_cast<double>(sum.received) / count};
}

}  // namespace

NodeBytes bytes_per_worker(const ExchangeBytes& bytes) { return mean_of(bytes.workers(), bytes.num_workers); }

NodeBytes bytes_per_server(const ExchangeBytes& bytes) { return mean_of(bytes.servers, bytes.num_servers); }

bool servers_are_busier(const ExchangeBytes& bytes) {
  return bytes_per_server(bytes).busier() > bytes_per_worker(bytes).busier();
}

NodeBytes bytes_of_busiest(const ExchangeBytes& bytes) {
  return servers_are_busier(bytes) ? bytes_per_server(bytes) : bytes_per_worker(bytes);
}

std::optional<double> wire_ratio(const ExchangeBytes& bytes, std::int64_t num_elements, int num_workers) {
  const double moved = bytes_of_busiest(bytes).busier();
  if (num_workers < 2 || moved == 0) return std::nullopt;
  return fp32_all_reduce_bytes(num_elements, num_workers) / moved;
}

void WireNodes::count_nodes(ExchangeBytes& total) const {
  const int end = workers_.first_local_worker + workers_.num_local_workers;
  for (int worker = workers_.first_local_worker; worker < end; ++worker) {
    ++(worker_serves(worker) ? total.num_servers : total.num_workers);
  }
  if (is_server()) ++total.num_servers;
}

void WireNodes::add_to_each(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, const LegBytes& bytes) const {
  const int end = workers_.first_local_worker + workers_.num_local_workers;
  for (int worker = workers_.first_local_worker; worker < end; ++worker) of_worker(total, leg, worker) += bytes;
  if (is_server()) total.servers += bytes;
}

void WireNodes::add_shard(ExchangeBytes& total, LegBytes ExchangeBytes::*leg, const ShardRange& own, std::size_t shard,
                          std::int64_t bytes) const {
  add_to_each(total, leg, {0, bytes});
  // The owner is a node of this process, and does not receive its own shard.
  if (own.has(shard)) of_owner(total, leg) += {bytes * num_peers(), -bytes};
}

}  // namespace terngrad
