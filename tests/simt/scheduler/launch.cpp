// The scheduler: runs the blocks of a launch one after another, and the threads of a block in turns.
//
// A lane runs as far as possible before its neighbours do, so that code which assumes lanes in lockstep without
// __syncwarp fails. Compiled without sanitizers, whose bookkeeping fibers would confuse, but linked with them.
#include <link.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <string_view>
#include <thread>
#include <vector>

#include "cuda_runtime.h"
#include "scheduler/sanitizers.h"
#include "scheduler/threads.h"

namespace simt {

Thread* current = nullptr;
unsigned num_alive = 0;

namespace {

/// A launch, and the order of its blocks, warps and lanes.
struct Launch {
  dim3 grid, block;
  std::size_t dynamic_bytes;
  std::vector<unsigned> blocks, warps, lanes;
};

std::deque<Thread> pool;  // shared by all launches; never moves its elements
unsigned num_threads = 0;
unsigned rotation = 0;
const std::function<void()>* kernel = nullptr;
std::vector<std::unique_ptr<char[]>> dynamic_memory;  // per block; never freed, so that no address is reused
char begin_token;
char end_token;

/// Thread `i` of the block. The fiber changes from block to block, so that the thread sanitizer does not take thread i
/// of two blocks for one thread and miss their races.
Thread& thread(unsigned i) { return pool[(i + rotation) % num_threads]; }

/// Body of a fiber: one iteration per block.
void run_rounds() {
  for (;;) {
    Thread* self = current;
    sanitizer::acquire(&begin_token);
    (*kernel)();
    sanitizer::release(&end_token);
    self->ended = true;
    --num_alive;
    complete_barrier_if_all_came();
    self->fiber.yield();
  }
}

/// Fills with NaNs. The thread sanitizer records each byte of a memset, which took a quarter of the time of the
/// emulated tests.
void fill_undefined(char* begin, std::size_t size) {
  if (!sanitizer::watches_threads()) {
    std::memset(begin, 0xff, size);
    return;
  }
  const std::size_t num_words = size / sizeof(std::uint64_t);
  auto* words = reinterpret_cast<volatile std::uint64_t*>(begin);
  for (std::size_t i = 0; i < num_words; ++i) words[i] = ~std::uint64_t{0};
  volatile char* rest = begin;
  for (std::size_t i = num_words * sizeof(std::uint64_t); i < size; ++i) rest[i] = static_cast<char>(0xff);
}

/// Fills the thread_local variables of the OS thread, which are the kernels' shared memory, with NaNs.
void make_shared_memory_undefined() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void*) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data != nullptr) {
            fill_undefined(static_cast<char*>(info->dlpi_tls_data), info->dlpi_phdr[i].p_memsz);
          }
        }
        return 1;  // only the program itself, which comes first, not its libraries
      },
      nullptr);
}

void begin_block(unsigned b, const Launch& launch) {
  const dim3 grid = launch.grid;
  const dim3 block = launch.block;
  num_alive = num_threads;
  rotation = 37 * b % num_threads;  // coprime to most thread counts
  for (unsigned i = 0; i < num_threads; ++i) {
    Thread& t = thread(i);
    t.linear = i;
    t.lane = i % 32;
    t.thread = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    t.block = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    t.block_dim = block;
    t.grid_dim = grid;
    t.ended = false;
  }
}

/// Runs the lanes of a warp until all wait or have ended. @returns true if any has run
bool run_warp(unsigned warp, const std::vector<unsigned>& lanes) {
  bool ran = false;
  for (bool again = true; again;) {
    again = false;
    for (const unsigned lane : lanes) {
      const unsigned i = warp * 32 + lane;
      if (i >= num_threads || !thread(i).can_run()) continue;
      current = &thread(i);
      current->fiber.resume();
      again = true;
    }
    ran |= again;
  }
  return ran;
}

void run_block(unsigned b, const Launch& launch) {
  make_shared_memory_undefined();
  // Exactly the requested size, so that the address sanitizer detects overflows.
  dynamic_memory.emplace_back(new char[launch.dynamic_bytes]);
  std::memset(dynamic_memory.back().get(), 0xff, launch.dynamic_bytes);
  Fiber::be_scheduler();
  sanitizer::release(&begin_token);
  begin_block(b, launch);
  while (num_alive > 0) {
    bool progress = false;
    for (const unsigned warp : launch.warps) progress |= run_warp(warp, launch.lanes);
    if (progress) continue;
    for (unsigned i = 0; i < num_threads; ++i) {
      if (thread(i).ended) continue;
      current = &thread(i);
      fail("deadlock: this thread waits for threads that never come", current->site);
    }
  }
}

bool fits_a_gpu(dim3 grid, dim3 block, std::size_t dynamic_bytes) {
  const auto within = [](dim3 shape, unsigned x, unsigned y, unsigned z) {
    return shape.x > 0 && shape.y > 0 && shape.z > 0 && shape.x <= x && shape.y <= y && shape.z <= z;
  };
  return within(grid, 0x7fffffff, 65535, 65535) && within(block, 1024, 1024, 64) &&
         block.x * block.y * block.z <= 1024 && dynamic_bytes <= std::size_t{48} << 10;
}

/// Reads SIMT_SEED. @returns false if it is not set
bool read_seed(unsigned& seed) {
  const char* text = std::getenv("SIMT_SEED");
  if (text == nullptr) return false;
  const std::string_view digits = text;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    std::fprintf(stderr, "simt: SIMT_SEED=%s is not a number from 0 to 4294967295\n", text);
    std::abort();
  }
  return true;
}

void choose_order(Launch& launch) {
  launch.blocks.resize(launch.grid.x * launch.grid.y * launch.grid.z);
  launch.warps.resize((num_threads + 31) / 32);
  launch.lanes.resize(32);
  unsigned seed = 0;
  const bool shuffled = read_seed(seed);
  std::mt19937 random(seed);
  for (std::vector<unsigned>* order : {&launch.blocks, &launch.warps, &launch.lanes}) {
    std::iota(order->begin(), order->end(), 0u);
    if (shuffled) std::shuffle(order->begin(), order->end(), random);
  }
}

}  // namespace

const Indices& self() { return *current; }

void* dynamic_shared() { return dynamic_memory.back().get(); }

void wait_for(const Rendezvous& rendezvous, Site site) {
  Thread* self = current;
  self->waits_for = &rendezvous;
  self->generation = rendezvous.generation;
  self->site = site;
  self->fiber.yield();
  self->waits_for = nullptr;
}

void print_position() {
  if (current == nullptr) return;  // a sanitizer reports host code
  const Indices& t = *current;
  std::fprintf(stderr, "simt: in block (%u,%u,%u) thread (%u,%u,%u)\n", t.block.x, t.block.y, t.block.z, t.thread.x,
               t.thread.y, t.thread.z);
}

void fail(const char* what, Site site) {
  std::fprintf(stderr, "%s:%u: simt: %s\n", site.file_name(), site.line(), what);
  print_position();
  std::abort();
}

void launch(dim3 grid, dim3 block, std::size_t dynamic_shared_bytes, const std::function<void()>& body) {
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  if (!fits_a_gpu(grid, block, dynamic_shared_bytes)) {
    remember(dynamic_shared_bytes > std::size_t{48} << 10 ? cudaErrorInvalidValue : cudaErrorInvalidConfiguration);
    return;
  }
  num_threads = block.x * block.y * block.z;
  kernel = &body;
  while (pool.size() < num_threads) pool.emplace_back(run_rounds, pool.size() + 1);
  Launch launch = {grid, block, dynamic_shared_bytes, {}, {}, {}};
  choose_order(launch);
  reset_rendezvous(launch.warps.size());
  sanitizer::on_death(print_position);

  // A block's shared memory is the thread_local memory of an OS thread. One OS thread runs all blocks; for the thread
  // sanitizer each block has its own, with new addresses.
  const std::size_t per_os_thread = sanitizer::watches_threads() ? 1 : launch.blocks.size();
  for (std::size_t first = 0; first < launch.blocks.size(); first += per_os_thread) {
    std::thread([&launch, first, per_os_thread] {
      for (std::size_t i = first; i < first + per_os_thread; ++i) run_block(launch.blocks[i], launch);
    }).join();
  }
  current = nullptr;
  sanitizer::acquire(&end_token);
  dynamic_memory.clear();
}

}  // namespace simt
