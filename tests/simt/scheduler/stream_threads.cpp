#include "simt/stream_threads.h"

#include <chrono>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

namespace simt {
namespace {

// Locked briefly by submissions of host threads, and by a ContextChange for its lifetime.
std::mutex& driver() {
  static auto* mutex = new std::mutex;  // streams may outlive static objects
  return *mutex;
}

struct Registry {
  std::mutex mutex;
  std::set<StreamThread*> streams;
  std::atomic<std::uint64_t> progress = 0;  // pieces of work done by all streams
};
Registry& registry() {
  static auto* all = new Registry;
  return *all;
}

thread_local StreamThread* own_stream = nullptr;  // the stream whose thread this is, else null

double patience() {
  const char* const seconds = std::getenv("SIMT_PATIENCE");
  return seconds == nullptr ? 20.0 : std::atof(seconds);
}

[[noreturn]] void end_program(const char* call, int device) {
  std::fprintf(stderr, "simt: %s of GPU %d waits for streams that do not end:\n", call, device);
  for (StreamThread* stream : registry().streams) {
    if (stream->is_idle()) continue;
    const char* const what = stream->waits_for();
    std::fprintf(stderr, "simt: stream %llu of GPU %d waits for %s\n",
                 static_cast<unsigned long long>(stream->number()), stream->device(), what == nullptr ? "?" : what);
  }
  std::fflush(stderr);
  std::_Exit(134);
}

}  // namespace

StreamThread::StreamThread(int device, std::uint64_t number)
    : device_(device), number_(number), thread_([this] { run(); }) {
  const std::lock_guard lock(registry().mutex);
  registry().streams.insert(this);
}

StreamThread::~StreamThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
  const std::lock_guard lock(registry().mutex);
  registry().streams.erase(this);
}

void StreamThread::submit(std::function<void()> work) {
  const std::lock_guard launch(driver());
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  ++num_submitted_;
  changed_.notify_all();
}

std::uint64_t StreamThread::num_submitted() {
  const std::lock_guard lock(mutex_);
  return num_submitted_;
}

void StreamThread::wait_for(std::uint64_t count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return num_done_ >= count; });
}

bool StreamThread::has_done(std::uint64_t count) {
  const std::lock_guard lock(mutex_);
  return num_done_ >= count;
}

bool StreamThread::is_idle() {
  const std::lock_guard lock(mutex_);
  return num_done_ == num_submitted_;
}

void StreamThread::run() {
  own_stream = this;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
    ++num_done_;
    ++registry().progress;
    changed_.notify_all();
  }
}

StreamWait::StreamWait(const char* what) {
  if (own_stream != nullptr) own_stream->set_waits_for(what);
}
StreamWait::~StreamWait() {
  if (own_stream != nullptr) own_stream->set_waits_for(nullptr);
}

ContextChange::ContextChange(const char* call, int device) {
  if (!streams_are_threads()) return;
  lock_ = std::unique_lock(driver());
  using Clock = std::chrono::steady_clock;
  const std::lock_guard all(registry().mutex);
  std::uint64_t progress = registry().progress;
  Clock::time_point last = Clock::now();
  const auto all_are_idle = [] {
    for (StreamThread* stream : registry().streams) {
      if (!stream->is_idle()) return false;
    }
    return true;
  };
  while (!all_are_idle()) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    if (const std::uint64_t now = registry().progress; now != progress) {
      progress = now;
      last = Clock::now();
    }
    if (std::chrono::duration<double>(Clock::now() - last).count() > patience()) end_program(call, device);
  }
}

void load_kernel(const void* kernel, int device) {
  if (!streams_are_threads()) return;
  const char* const loading = std::getenv("CUDA_MODULE_LOADING");
  if (loading != nullptr && std::string_view(loading) == "EAGER") return;
  static std::mutex mutex;
  static std::set<std::pair<const void*, int>> loaded;
  {
    const std::lock_guard lock(mutex);
    if (!loaded.insert({kernel, device}).second) return;
  }
  const ContextChange change("loading a kernel", device);
}

}  // namespace simt
