// parallel_for: the only interface to the threading runtime.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

namespace terngrad {

namespace detail {
using RangeFunction = void (*)(void* body, std::int64_t begin, std::int64_t end);
void parallel_ranges(int num_threads, std::int64_t count, std::int64_t grain, RangeFunction call, void* body);
}  // namespace detail

/// Calls body(begin, end) on disjoint ranges that cover [0, count) exactly once.
///
/// The ranges are contiguous, at most `num_threads` in number, of nearly equal length, and (except for the last)
/// multiples of `grain`. The assignment of ranges to threads is fixed, but results must not depend on range boundaries.
/// With one thread, or possibly when nested in another parallel_for, the body runs in the calling thread. If bodies
/// throw, the exception of the first such range is rethrown in the caller after all ranges have ended.
///
/// @param num_threads  maximum number of threads, at least 1
/// @param count        number of indices; 0 calls nothing
/// @param grain        smallest range worth a thread, at least 1
template <class Body>
void parallel_for(int num_threads, std::int64_t count, std::int64_t grain, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  if (num_threads <= 1 || count <= grain) {
    if (count > 0) body(std::int64_t{0}, count);
    return;
  }
  detail::parallel_ranges(
      num_threads, count, grain,
      [](void* erased, std::int64_t begin, std::int64_t end) { (*static_cast<Plain*>(erased))(begin, end); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

/// Grain for loops with a few operations per element.
inline constexpr std::int64_t kElementGrain = 16384;

/// Sets the number of threads that third-party libraries (oneDNN) use when called from this thread, for the lifetime of
/// the object. Their results may depend on it, so callers set it explicitly.
class LibraryThreads {
 public:
  explicit LibraryThreads(int num_threads);
  ~LibraryThreads();
  LibraryThreads(const LibraryThreads&) = delete;
  LibraryThreads& operator=(const LibraryThreads&) = delete;

 private:
  int previous_;
};

}  // namespace terngrad
