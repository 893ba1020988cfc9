// Streams as threads (SIMT_STREAMS=threads): they run concurrently with the host and each other. Calls that change a
// context (memory, modules, graphs) wait for all streams of all devices and block launches of all host threads
// meanwhile. This is the worst behaviour that CUDA allows between GPUs with peer access, and hangs processes whose GPUs
// wait for each other.
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

/// Runs the work of a stream in order in its own thread.
class StreamThread {
 public:
  StreamThread(int device, std::uint64_t number);
  /// Waits until all work is done.
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  void submit(std::function<void()> work);
  std::uint64_t num_submitted();
  /// Waits until `count` pieces of the submitted work are done.
  void wait_for(std::uint64_t count);
  bool has_done(std::uint64_t count);
  bool is_idle();
  int device() const { return device_; }
  std::uint64_t number() const { return number_; }
  /// Description of what the running work waits for; null if it does not wait.
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

/// Scope in which a stream's work waits for `what`.
class StreamWait {
 public:
  explicit StreamWait(const char* what);
  ~StreamWait();
  StreamWait(const StreamWait&) = delete;
  StreamWait& operator=(const StreamWait&) = delete;
};

/// Scope of a call that changes a context. If streams are threads, no work runs on any device meanwhile. If no stream
/// makes progress for SIMT_PATIENCE seconds (default 20), ends the program and prints the call and the waiting streams.
class ContextChange {
 public:
  ContextChange(const char* call, int device);

 private:
  std::unique_lock<std::mutex> lock_;
};

/// Loads a kernel at its first launch on a device, unless CUDA_MODULE_LOADING=EAGER.
void load_kernel(const void* kernel, int device);

}  // namespace simt
