#include "bench/exchange_run.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <utility>

#include "compress/comm/all_gather_doubles.h"
#include "compress/comm/metered_communicator.h"
#include "compress/cost/exchange_probe.h"
#include "compress/cost/sample_gradient.h"
#include "compress/exchange/compressed_all_reduce.h"
#include "compress/exchange/vendor_codecs.h"
#include "kernels/runtime/errors.h"
#include "kernels/tensor/crc32c.h"

namespace terngrad::bench {
namespace {

constexpr std::array kParts = {&ExchangeTimes::measure_seconds, &ExchangeTimes::encode_seconds,
                               &ExchangeTimes::wire_seconds,    &ExchangeTimes::decode_seconds,
                               &ExchangeTimes::total_seconds,   &ExchangeTimes::sent_bytes,
                               &ExchangeTimes::received_bytes};

ExchangeTimes medians(const std::vector<ExchangeTimes>& all) {
  ExchangeTimes result;
  std::vector<double> values(all.size());
  for (const auto part : kParts) {
    std::ranges::transform(all, values.begin(), [&](const ExchangeTimes& times) { return times.*part; });
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    result.*part = *middle;
  }
  return result;
}

void require_same_mean(Communicator& communicator, const Layout& layout, std::span<const float> mean) {
  std::uint32_t checksum = 0;
  for (const Segment& segment : layout.segments()) {
    const auto values =
        mean.subspan(static_cast<std::size_t>(segment.offset), static_cast<std::size_t>(segment.num_elements));
    checksum = crc32c({reinterpret_cast<const std::uint8_t*>(values.data()), values.size_bytes()}, checksum);
  }
  const std::array own = {static_cast<double>(checksum)};
  const std::vector<std::vector<double>> all = all_gather_doubles(communicator, own);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) {
      TERNGRAD_THROW(CommunicationError, "[exchange] rank ", rank, " has another mean than rank 0");
    }
  }
}

/// Exchanges and what they took, with a meter between them and the ranks.
class MeteredRun {
 public:
  explicit MeteredRun(ExchangeSubject& subject)
      : subject_(subject),
        metered_(std::make_shared<MeteredCommunicator>(subject.workers.communicator)),
        workers_(subject.workers),
        mean_(subject.layout.flat_elements()) {
    workers_.communicator = metered_;
  }

  const WorkerGroup& workers() const { return workers_; }
  std::span<const float> mean() const { return mean_.span(); }

  /// Fills result.ranks and result.samples. A collective call.
  void time(CompressedAllReduce& exchange, const ExchangeRepetitions& repetitions, ExchangeResult& result);

 private:
  ExchangeTimes time_one(CompressedAllReduce& exchange, std::uint64_t step);

  ExchangeSubject& subject_;
  std::shared_ptr<MeteredCommunicator> metered_;
  WorkerGroup workers_;
  Buffer<float> mean_;
};

ExchangeTimes MeteredRun::time_one(CompressedAllReduce& exchange, std::uint64_t step) {
  std::vector<TensorTable> tables;
  for (Buffer<float>& gradient : subject_.gradients) tables.emplace_back(subject_.layout, gradient.data());
  const TensorTable mean_table(subject_.layout, mean_.data());
  metered_->barrier();
  metered_->reset();
  const auto begin = std::chrono::steady_clock::now();
  const ExchangeReport report = exchange.exchange(tables, mean_table, step);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {.measure_seconds = report.measure_seconds,
          .encode_seconds = report.encode_seconds,
          .wire_seconds = report.wire_seconds,
          .decode_seconds = report.decode_seconds,
          .total_seconds = seconds,
          .sent_bytes = static_cast<double>(metered_->sent_bytes()),
          .received_bytes = static_cast<double>(metered_->received_bytes())};
}

void MeteredRun::time(CompressedAllReduce& exchange, const ExchangeRepetitions& repetitions, ExchangeResult& result) {
  std::vector<double> own;
  for (int i = 0; i < repetitions.warm_up + repetitions.repetitions; ++i) {
    const ExchangeTimes times = time_one(exchange, static_cast<std::uint64_t>(i));
    if (i < repetitions.warm_up) continue;
    for (const auto part : kParts) own.push_back(times.*part);
  }
  result.samples.resize(own.size() / kParts.size());
  for (const std::vector<double>& of_rank : all_gather_doubles(*metered_, own)) {
    std::vector<ExchangeTimes> counted(result.samples.size());
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      const auto part = kParts[i % kParts.size()];
      double& largest = result.samples[i / kParts.size()].*part;
      counted[i / kParts.size()].*part = of_rank[i];
      largest = std::max(largest, of_rank[i]);
    }
    result.ranks.push_back(medians(counted));
  }
}

}  // namespace

double ExchangeTimes::bits_per_second() const {
  return wire_seconds > 0 ? 8 * std::max(sent_bytes, received_bytes) / wire_seconds : 0;
}

ExchangeTimes ExchangeResult::slowest() const { return medians(samples); }

ExchangeSubject make_exchange_subject(Layout layout, WorkerGroup workers, int num_threads) {
  ExchangeSubject subject{
      .layout = std::move(layout), .workers = std::move(workers), .gradients = {}, .num_threads = num_threads};
  for (int local = 0; local < subject.workers.num_local_workers; ++local) {
    Buffer<float>& gradient = subject.gradients.emplace_back(subject.layout.flat_elements());
    const std::int64_t worker = std::int64_t{subject.workers.first_local_worker} + local;
    fill_sample_gradient(gradient.span(), static_cast<std::uint64_t>(worker + 1), num_threads);
  }
  return subject;
}

ExchangeResult run_exchange(ExchangeSubject& subject, const std::string& codec, CompressedAllReduceOptions options,
                            const ExchangeRepetitions& repetitions) {
  MeteredRun run(subject);
  options.num_threads = subject.num_threads;
  const ExchangeAlgorithm algorithm = algorithm_in_use(subject.layout, subject.workers.num_workers, options);
  CompressedAllReduce exchange(subject.layout, run.workers(), options);
  ExchangeResult result{.codec = codec, .exchange = word_of(algorithm), .ranks = {}, .samples = {}, .predicted = {}};
  run.time(exchange, repetitions, result);
  require_same_mean(*subject.workers.communicator, subject.layout, run.mean());
  return result;
}

ExchangeResult run_vendor(ExchangeSubject& subject, const std::string& codec, const ExchangeRepetitions& repetitions) {
  MeteredRun run(subject);
  CompressedAllReduceOptions options;
  options.vendor_type = vendor_element_type(codec);
  options.num_threads = subject.num_threads;
  CompressedAllReduce exchange(subject.layout, run.workers(), options);
  ExchangeResult result{.codec = codec, .exchange = kVendorExchange, .ranks = {}, .samples = {}, .predicted = {}};
  run.time(exchange, repetitions, result);
  return result;
}

ExchangeCost predict_exchange(ExchangeSubject& subject, const std::string& codec, CompressedAllReduceOptions options,
                              int repetitions) {
  Communicator& communicator = *subject.workers.communicator;
  options.num_threads = subject.num_threads;
  const ProbeOptions probe{.codec = codec,
                           .exchange = options,
                           .world = {subject.workers.num_workers, communicator.size()},
                           .repetitions = repetitions};
  return probe_on_all_ranks(communicator, subject.layout, subject.gradients[0].span(), probe);
}

}  // namespace terngrad::bench
