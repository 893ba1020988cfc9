#include "trainers/optim/cpu/worker_gradients.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/optimizer/optimizer.h"
#include "kernels/runtime/parallel.h"
#include "kernels/statistics/statistics.h"
#include "kernels/tensor/layout.h"
#include "kernels/tensor/transform.h"
#include "trainers/optim/flat_range.h"

namespace terngrad::cpu {
namespace {

/// Calls body(worker, stream) for each worker: workers in parallel if there are more of them than threads, else one
/// after the other with all threads.
template <class Body>
void for_each_worker(int num_workers, Stream& stream, const Body& body) {
  const bool side_by_side = num_workers >= stream.num_threads();
  parallel_for(side_by_side ? stream.num_threads() : 1, num_workers, 1, [&](std::int64_t first, std::int64_t last) {
    Stream worker_stream(Device::cpu(), side_by_side ? 1 : stream.num_threads());
    for (std::int64_t worker = first; worker < last; ++worker) body(static_cast<int>(worker), worker_stream);
  });
}

std::span<float> span_of(WorkerBuffers<float> gradients, int worker, std::int64_t first, std::int64_t count) {
  return {gradients.of(worker) + first, static_cast<std::size_t>(count)};
}

}  // namespace

void zero_nonfinite(WorkerBuffers<float> gradients, int num_workers, std::int64_t count, TransformCounts* counts,
                    Stream& stream) {
  std::atomic<std::int64_t> num_zeroed = 0;
  for_each_worker(num_workers, stream, [&](int worker, Stream& worker_stream) {
    num_zeroed += terngrad::zero_nonfinite(span_of(gradients, worker, 0, count), worker_stream);
  });
  counts->zeroed_elements += num_zeroed;
}

void add_weight_decay(WorkerBuffers<float> gradients, int num_workers, const float* parameters, float decay,
                      const std::uint8_t* is_decayed, std::int64_t count, Stream& stream) {
  // Runs of consecutive decayed cache lines: one tensor, or several adjacent ones.
  std::vector<FlatRange> decayed;
  const std::uint8_t* const end = is_decayed + count / kFlatAlignment;
  for (const std::uint8_t* line = std::find(is_decayed, end, 1); line != end;) {
    const std::uint8_t* const past = std::find(line, end, 0);
    decayed.push_back({(line - is_decayed) * kFlatAlignment, (past - line) * kFlatAlignment});
    line = std::find(past, end, 1);
  }
  for_each_worker(num_workers, stream, [&](int worker, Stream& worker_stream) {
    for (const FlatRange& range : decayed) {
      terngrad::add_weight_decay(span_of(gradients, worker, range.first, range.count),
                                 {parameters + range.first, static_cast<std::size_t>(range.count)}, decay,
                                 worker_stream);
    }
  });
}

void clip_factors(const Statistics* statistics, int num_workers, int num_tensors, double max_norm,
                  bool zeroes_nonfinite, float* factors, TransformCounts* counts, Stream&) {
  for (int worker = 0; worker < num_workers; ++worker) {
    double sum_squares = 0;
    bool is_left = false;
    for (int tensor = 0; tensor < num_tensors; ++tensor) {
      const Statistics& of_tensor = statistics[std::int64_t{worker} * num_tensors + tensor];
      if (!of_tensor.is_nonfinite()) {
        sum_squares += of_tensor.sum_squares;
      } else if (!zeroes_nonfinite) {
        is_left = true;
      }
    }
    const double norm = std::sqrt(sum_squares);
    const bool clips = !is_left && norm > max_norm;
    factors[worker] = clips ? static_cast<float>(max_norm / norm) : 1.0f;
    if (clips) ++counts->clipped_gradients;
  }
}

void scale_workers(WorkerBuffers<float> gradients, int num_workers, const float* factors, std::int64_t count,
                   Stream& stream) {
  for_each_worker(num_workers, stream, [&](int worker, Stream& worker_stream) {
    if (factors[worker] != 1.0f) scale(span_of(gradients, worker, 0, count), factors[worker], worker_stream);
  });
}

}  // namespace terngrad::cpu
