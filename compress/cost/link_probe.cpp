#include "compress/cost/link_probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "compress/comm/all_gather_doubles.h"
#include "compress/cost/probe_samples.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/route/wire_bytes.h"
#include "compress/transport/grouped_peers.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

ExchangeCost probe_link(const std::shared_ptr<Communicator>& communicator, const Layout& layout,
                        std::span<const float> gradient, const LinkModel& link, const LinkProbeOptions& options) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(gradient.size()) == layout.flat_elements(), "[probe_link] layout has ",
                   layout.flat_elements(), " elements, the gradient ", gradient.size());
  TERNGRAD_REQUIRE(options.repetitions >= 1, "[probe_link] repetitions must be at least 1, got ", options.repetitions);
  TERNGRAD_REQUIRE(options.exchange.vendor_type.has_value() || options.workers_per_group > 1,
                   "[probe_link] measures the library's all-reduce (vendor_type) and groups (workers_per_group 2 or "
                   "more); other exchanges have counted bytes: probe_on_all_ranks");
  const WorkerGroup workers = make_worker_group(options.num_workers, communicator);
  const ExchangePeers peers = grouped_peers(workers, options.workers_per_group);
  // The report counts the bytes of each group, whichever groups a rank has.
  TERNGRAD_REQUIRE(peers.members.groups.size() <= 1, "[probe_link] a rank has ", peers.members.groups.size(),
                   " groups of ", options.workers_per_group, " workers, accepted: 1");
  CompressedAllReduce exchange(layout, peers, options.exchange);
  // TensorTable has mutable pointers; an exchange only reads gradients.
  const std::vector<TensorTable> gradients(static_cast<std::size_t>(workers.num_local_workers),
                                           TensorTable(layout, const_cast<float*>(gradient.data())));
  Buffer<float> mean(layout.flat_elements());
  const TensorTable mean_table(layout, mean.data());
  double group_bytes = 0;
  // All ranks have the same times, so all stop at the same exchange.
  const auto run_one = [&] {
    communicator->barrier();
    const ExchangeReport report = exchange.exchange(gradients, mean_table, 1);
    std::array<double, 4> own{};
    // A rank for which another one exchanges waits for all of that one's parts, which would count twice.
    if (exchange.takes_part()) {
      own = {report.measure_seconds + report.encode_seconds, report.wire_seconds, report.decode_seconds,
             static_cast<double>(std::max(report.sent_bytes(), report.received_bytes()))};
    }
    const std::vector<double> most = max_over_ranks(*communicator, own);
    group_bytes = most[3];
    return ProbeSamples::Parts{most[0], most[1], most[2]};
  };
  const ProbeSamples::Parts first = run_one();
  double seconds = sum_of(first);
  ProbeSamples samples;
  while (samples.count() < options.repetitions && seconds < options.enough_seconds &&
         !samples.are_beaten(options.beaten_seconds, 0)) {
    const ProbeSamples::Parts parts = run_one();
    samples.add(parts);
    seconds += sum_of(parts);
  }
  if (samples.empty()) samples.add(first);
  const auto [encode, wire, decode] = samples.medians();
  const std::optional<ElementType> vendor_type = options.exchange.vendor_type;
  ExchangeCost cost{.codec = options.codec,
                    .exchange = vendor_type ? kVendorExchange : word_of(options.exchange.algorithm),
                    .workers_per_group = options.workers_per_group,
                    .moved_bytes = group_bytes,
                    .encode_seconds = encode,
                    .decode_seconds = decode,
                    .samples = samples.sums()};
  if (vendor_type) {
    const std::int64_t bytes = layout.num_elements() * static_cast<std::int64_t>(element_bytes(*vendor_type));
    cost.moved_bytes = static_cast<double>(all_reduce_bytes(bytes, communicator->size()));
  }
  if (std::isfinite(link.bytes_per_second)) {
    cost.wire.bytes = wire * link.bytes_per_second;
    return cost;
  }
  cost.wire.bytes = cost.moved_bytes;
  cost.check_seconds = wire;
  return cost;
}

}  // namespace terngrad
