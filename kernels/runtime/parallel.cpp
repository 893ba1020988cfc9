#include "kernels/runtime/parallel.h"

#include <algorithm>
#include <exception>
#include <memory>

#if defined(TERNGRAD_THREADS_OPENMP)
#include <omp.h>
#else
#include "kernels/runtime/thread_team.h"
#endif

namespace terngrad {
namespace {

/// Begin of range `index` when `count` indices are cut into `num_ranges` ranges at multiples of `grain`.
std::int64_t range_begin(std::int64_t index, std::int64_t num_ranges, std::int64_t count, std::int64_t grain) {
  const std::int64_t num_grains = (count + grain - 1) / grain;
  return std::min(count, num_grains * index / num_ranges * grain);
}

}  // namespace

void detail::parallel_ranges(int num_threads, std::int64_t count, std::int64_t grain, RangeFunction call, void* body) {
  if (count <= 0) return;
  const std::int64_t num_grains = (count + grain - 1) / grain;
  const int num_ranges = static_cast<int>(std::min<std::int64_t>(num_threads, num_grains));
  if (num_ranges == 1) return call(body, 0, count);
  const auto errors = std::make_unique<std::exception_ptr[]>(static_cast<std::size_t>(num_ranges));
  const auto run = [&](int index) {
    try {
      const std::int64_t begin = range_begin(index, num_ranges, count, grain);
      const std::int64_t end = range_begin(index + 1, num_ranges, count, grain);
      if (begin < end) call(body, begin, end);
    } catch (...) {
      errors[static_cast<std::size_t>(index)] = std::current_exception();
    }
  };
#if defined(TERNGRAD_THREADS_OPENMP)
#pragma omp parallel for num_threads(num_ranges) schedule(static, 1)
  for (int index = 0; index < num_ranges; ++index) run(index);
#else
  ThreadTeam::of_this_thread().run(num_ranges, run);
#endif
  for (int index = 0; index < num_ranges; ++index) {
    if (errors[static_cast<std::size_t>(index)]) std::rethrow_exception(errors[static_cast<std::size_t>(index)]);
  }
}

#if defined(TERNGRAD_THREADS_OPENMP)
LibraryThreads::LibraryThreads(int num_threads) : previous_(omp_get_max_threads()) { omp_set_num_threads(num_threads); }
LibraryThreads::~LibraryThreads() { omp_set_num_threads(previous_); }
#else
// This build keeps libraries single-threaded (OMP_NUM_THREADS=1 in the test presets): ThreadSanitizer cannot see
// OpenMP.
LibraryThreads::LibraryThreads(int num_threads) : previous_(num_threads) {}
LibraryThreads::~LibraryThreads() { static_cast<void>(previous_); }
#endif

}  // namespace terngrad
