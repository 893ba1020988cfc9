#include "compress/vendor_probe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "compress/gathered_numbers.h"
#include "compress/vendor_all_reduce.h"
#include "kernels/buffer.h"
#include "kernels/errors.h"

namespace terngrad {
namespace {

/// Seconds of the parts of an exchange: to its handing over, on its way, and after it.
using Parts = std::array<double, 3>;

double sum(const Parts& parts) { return std::accumulate(parts.begin(), parts.end(), 0.0); }

/// Of each part its own.
Parts medians(const std::vector<Parts>& all) {
  Parts result{};
  std::vector<double> values(all.size());
  for (std::size_t part = 0; part < result.size(); ++part) {
    std::ranges::transform(all, values.begin(), [&](const Parts& parts) { return parts[part]; });
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    result[part] = *middle;
  }
  return result;
}

}  // namespace

ExchangeCost probe_vendor(const std::shared_ptr<Communicator>& communicator, const Layout& layout,
                          std::span<const float> gradient, const LinkModel& link, const VendorProbeOptions& options) {
  TERNGRAD_REQUIRE(static_cast<std::int64_t>(gradient.size()) == layout.flat_elements(), "[probe_vendor] layout has ",
                   layout.flat_elements(), " elements, the gradient ", gradient.size());
  TERNGRAD_REQUIRE(options.repetitions >= 1, "[probe_vendor] repetitions must be at least 1, got ",
                   options.repetitions);
  const ElementType type = vendor_element_type(options.codec);
  const WorkerGroup workers = make_worker_group(options.num_workers, communicator);
  VendorAllReduce exchange(layout, workers, {.type = type, .num_threads = options.num_threads});
  // Tables are of what may be written; an exchange only reads gradients.
  const std::vector<TensorTable> gradients(static_cast<std::size_t>(workers.num_local_workers),
                                           TensorTable(layout, const_cast<float*>(gradient.data())));
  Buffer<float> mean(layout.flat_elements());
  const TensorTable mean_table(layout, mean.data());
  // All ranks have the same times, so all stop at the same exchange.
  const auto run_one = [&] {
    communicator->barrier();
    const ExchangeReport report = exchange.exchange(gradients, mean_table, 1);
    const Parts own = {report.encode_seconds, report.wire_seconds, report.decode_seconds};
    const std::vector<double> slowest = greatest_over_ranks(*communicator, own);
    return Parts{slowest[0], slowest[1], slowest[2]};
  };
  const Parts first = run_one();
  double seconds = sum(first);
  std::vector<Parts> all;
  while (static_cast<int>(all.size()) < options.repetitions && seconds < options.enough_seconds) {
    seconds += sum(all.emplace_back(run_one()));
  }
  const auto [encode, wire, decode] = all.empty() ? first : medians(all);
  ExchangeCost cost{
      .codec = options.codec, .exchange = kVendorExchange, .encode_seconds = encode, .decode_seconds = decode};
  if (std::isfinite(link.bytes_per_second)) {
    cost.wire.bytes = wire * link.bytes_per_second;
    return cost;
  }
  const double bytes = static_cast<double>(layout.num_elements()) * static_cast<double>(element_bytes(type));
  cost.wire.bytes = bytes * 2 * (communicator->size() - 1) / communicator->size();
  cost.check_seconds = wire;
  return cost;
}

}  // namespace terngrad
