#include "compress/exchange/memory_all_reduce.h"

#include <chrono>
#include <utility>

#include "kernels/runtime/stopwatch.h"

namespace terngrad {

MemoryAllReduce::MemoryAllReduce(const Layout& layout, const WorkerGroup& workers,
                                 const CompressedAllReduceOptions& options, Buckets buckets,
                                 const MemoryOptions& memory)
    : exchange_(layout, workers, options, std::move(buckets)),
      memory_(layout, exchange_.plan(), memory, workers.num_local_workers),
      stream_(Device::cpu(), options.num_threads) {}

ExchangeReport MemoryAllReduce::exchange(std::span<const TensorTable> gradients, const TensorTable& mean,
                                         std::uint64_t step) {
  begin(gradients, mean, step);
  for (int bucket = 0; bucket < static_cast<int>(buckets().size()); ++bucket) exchange_bucket(bucket);
  return finish();
}

void MemoryAllReduce::begin(std::span<const TensorTable> gradients, const TensorTable& mean, std::uint64_t step) {
  compensate_seconds_ = 0;
  exchange_.begin(memory_.begin(gradients), mean, step);
}

ExchangeReport MemoryAllReduce::exchange_bucket(int bucket) {
  auto mark = std::chrono::steady_clock::now();
  memory_.compensate(buckets().at(static_cast<std::size_t>(bucket)), stream_);
  const double seconds = lap_seconds(mark);
  ExchangeReport report = exchange_.exchange_bucket(bucket);
  report.encode_seconds += seconds;
  compensate_seconds_ += seconds;
  return report;
}

ExchangeReport MemoryAllReduce::finish() {
  ExchangeReport report = exchange_.finish();
  auto mark = std::chrono::steady_clock::now();
  if (!report.skipped) {
    for (const MemoryTables& tables : memory_.kept()) exchange_.update_memory(tables.what, tables.from, tables.into);
  }
  report.encode_seconds += compensate_seconds_ + lap_seconds(mark);
  return report;
}

float MemoryAllReduce::decode_local(int local_worker, int segment, std::span<float> out) {
  return exchange_.decode_local(local_worker, segment, out);
}

}  // namespace terngrad
