// Streams as threads (SIMT_STREAMS=threads): they run beside the host and each other, and block where a GPU's do. What
// changes a context (memory, modules, graphs) waits for every stream of every device, and keeps launches of all host
// threads waiting meanwhile: that is the worst that the CUDA runtime may do between GPUs that see each other's memory,
// and what hangs a process whose GPUs wait for each other.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace simt {

inline bool streams_are_threads() {
  const char* const streams = std::getenv("SIMT_STREAMS");
  return streams != nullptr && std::strcmp(streams, "threads") == 0;
}

/// The work of a stream, in order, in a thread of its own.
class StreamThread {
 public:
  StreamThread(int device, std::uint64_t number);
  /// Ends when all work is done.
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  void submit(std::function<void()> work);
  std::uint64_t num_submitted();
  /// Waits until so much of what was submitted is done.
  void wait_for(std::uint64_t count);
  bool has_done(std::uint64_t count);
  bool is_idle();
  int device() const { return device_; }
  std::uint64_t number() const { return number_; }
  /// What the work under way waits for; null: nothing.
  const char* waits_for() const { return waits_for_.load(); }
  void set_waits_for(const char* what) { waits_for_ = what; }

 private:
  void run();

  int device_;
  std::uint64_t number_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::uint64_t num_submitted_ = 0;
  std::uint64_t num_done_ = 0;
  bool ends_ = false;
  std::atomic<const char*> waits_for_ = nullptr;
  std::thread thread_;
};

/// For work of a stream: says, as long as it lives, what the stream waits for.
class StreamWait {
 public:
  explicit StreamWait(const char* what);
  ~StreamWait();
  StreamWait(const StreamWait&) = delete;
  StreamWait& operator=(const StreamWait&) = delete;
};

/// A call that changes a context. Where streams are threads, nothing runs on any device while it lives.
/// If no stream gets any further for SIMT_PATIENCE seconds (20), the program ends and says which call waits for what.
class ContextChange {
 public:
  ContextChange(const char* call, int device);

 private:
  std::unique_lock<std::mutex> lock_;
};

/// A kernel's first launch on a device loads it, unless CUDA_MODULE_LOADING=EAGER.
void load_kernel(const void* kernel, int device);

}  // namespace simt
