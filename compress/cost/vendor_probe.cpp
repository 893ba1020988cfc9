#include "compress/cost/vendor_probe.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "compress/comm/all_gather_doubles.h"
#include "compress/cost/probe_samples.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/vendor_codecs.h"
#include "compress/route/wire_bytes.h"
#include "kernels/runtime/buffer.h"
#include "kernels/runtime/errors.h"

namespace terngrad {

ExchangeCost probe_vendor(const std::shared_ptr<Communicator>& communicator, const Layout& layout,
                          std::span<const float> gradient, const LinkModel& link, const VendorProbeOptions& options) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(gradient.size()) == layout.flat_elements(), "[probe_vendor] layout has ",
                   layout.flat_elements(), " elements, the gradient ", gradient.size());
  TERNGRAD_REQUIRE(options.repetitions >= 1, "[probe_vendor] repetitions must be at least 1, got ",
                   options.repetitions);
  const ElementType type = vendor_element_type(options.codec);
  const WorkerGroup workers = make_worker_group(options.num_workers, communicator);
  CompressedAllReduceOptions vendor;
  vendor.vendor_type = type;
  vendor.num_threads = options.num_threads;
  CompressedAllReduce exchange(layout, workers, vendor);
  // TensorTable has mutable pointers; an exchange only reads gradients.
  const std::vector<TensorTable> gradients(static_cast<std::size_t>(workers.num_local_workers),
                                           TensorTable(layout, const_cast<float*>(gradient.data())));
  Buffer<float> mean(layout.flat_elements());
  const TensorTable mean_table(layout, mean.data());
  // All ranks have the same times, so all stop at the same exchange.
  const auto run_one = [&] {
    communicator->barrier();
    const ExchangeReport report = exchange.exchange(gradients, mean_table, 1);
    const ProbeSamples::Parts own = {report.encode_seconds, report.wire_seconds, report.decode_seconds};
    const std::vector<double> slowest = max_over_ranks(*communicator, own);
    return ProbeSamples::Parts{slowest[0], slowest[1], slowest[2]};
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
  ExchangeCost cost{.codec = options.codec,
                    .exchange = kVendorExchange,
                    .encode_seconds = encode,
                    .decode_seconds = decode,
                    .samples = samples.sums()};
  const std::int64_t bytes = layout.num_elements() * static_cast<std::int64_t>(element_bytes(type));
  cost.moved_bytes = static_cast<double>(all_reduce_bytes(bytes, communicator->size()));
  if (std::isfinite(link.bytes_per_second)) {
    cost.wire.bytes = wire * link.bytes_per_second;
    return cost;
  }
  cost.wire.bytes = cost.moved_bytes;
  cost.check_seconds = wire;
  return cost;
}

}  // namespace terngrad
