// Fiber scheduler behind the CPU stand-in for <cuda_runtime.h>.
//
// Blocks run one after another on an OS thread made for them; the threads of a block are
// fibers that switch only at barriers and warp collectives. A lane runs as far as it can
// before its neighbours do, so code that leans on lock-step execution without saying so
// misbehaves here. SIMT_SEED=n shuffles the order of blocks, warps and lanes.
//
// Compile this file without sanitizers and link it with them: it tells ASan about stack
// switches, and TSan that fibers are concurrent threads ordered by barriers alone.
#include <link.h>
#include <sys/mman.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>
#include "cuda_runtime.h"

extern "C" {  // present only when linked with ASan or TSan
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, size_t* size);
[[gnu::weak]] void __sanitizer_set_death_callback(void (*)());
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* token);
[[gnu::weak]] void __tsan_release(void* token);
}

namespace simt {
namespace {

// ---- contexts: a stack pointer with the callee-saved registers pushed on it ---------------
#ifdef __x86_64__
struct Context {
  void* sp;
};
extern "C" void simt_switch(void** save, void* load);
asm(".text\n.type simt_switch,@function\nsimt_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
void jump(Context& from, Context& to) { simt_switch(&from.sp, to.sp); }
void prepare(Context& c, char* stack, size_t size, void (*entry)()) {
  void** sp = reinterpret_cast<void**>(stack + size) - 2;  // entry sees rsp = 8 mod 16
  *sp = reinterpret_cast<void*>(entry);
  c.sp = sp - 6;
}
#else  // ten times slower (two system calls a switch), but portable
}
}
#include <ucontext.h>
namespace simt {
namespace {
struct Context {
  ucontext_t u;
};
void jump(Context& from, Context& to) { swapcontext(&from.u, &to.u); }
void prepare(Context& c, char* stack, size_t size, void (*entry)()) {
  getcontext(&c.u);
  c.u.uc_stack.ss_sp = stack;
  c.u.uc_stack.ss_size = size;
  makecontext(&c.u, entry, 0);
}
#endif

// ---- state --------------------------------------------------------------------------------
constexpr size_t kStack = 256 * 1024, kGuard = 4096;

struct Rendezvous {
  unsigned generation = 0, arrived = 0;
  Site site;
  char token[2];  // one TSan token per generation parity
  void open() { arrived = 0, ++generation; }
};
struct BlockBarrier : Rendezvous {
  unsigned trues = 0, result = 0;
};
struct LaneGroup : Rendezvous {
  unsigned mask = 0;
  uint64_t slots[2][32];
};
struct Warp {
  LaneGroup groups[32];
};  // a group is named by its mask's lowest lane

struct Thread : Indices {
  Context context;
  char* stack;
  void* fake_stack = nullptr;
  void* tsan = nullptr;
  bool done = true;
  const Rendezvous* waiting = nullptr;
  unsigned ticket = 0;  // the generation waited for
  Site site;
};

std::deque<Thread> pool;  // never moves its elements
unsigned threads, rotation;
// A fiber serves one CUDA thread per block; were it always the same one, TSan would take
// thread i of block a and thread i of block b for one thread and miss their races.
Thread& thread(unsigned i) { return pool[(i + rotation) % threads]; }
std::vector<Warp> warps;
BlockBarrier barrier;
unsigned alive;
Thread* current;
const std::function<void()>* kernel;
void* dynamic;
std::vector<std::unique_ptr<char[]>> dynamic_blocks;  // kept until the launch ends
Context scheduler;
void *scheduler_fake_stack, *scheduler_tsan;
const void* scheduler_stack;
size_t scheduler_stack_size;
char begin_token, end_token;

bool same(const Site& a, const Site& b) {
  return a.line() == b.line() && a.column() == b.column() && !std::strcmp(a.file_name(), b.file_name());
}

// ---- switching ----------------------------------------------------------------------------
constexpr unsigned kNoHappensBefore = 1;

void to_scheduler(Thread* t) {
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(&t->fake_stack, scheduler_stack, scheduler_stack_size);
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(scheduler_tsan, kNoHappensBefore);
  jump(t->context, scheduler);
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(t->fake_stack, &scheduler_stack, &scheduler_stack_size);
}

void resume(Thread* t) {
  current = t;
  if (__sanitizer_start_switch_fiber) __sanitizer_start_switch_fiber(&scheduler_fake_stack, t->stack, kStack);
  if (__tsan_switch_to_fiber) __tsan_switch_to_fiber(t->tsan, kNoHappensBefore);
  jump(scheduler, t->context);
  if (__sanitizer_finish_switch_fiber) __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
}

void wait(const Rendezvous& r, Site site) {
  Thread* t = current;
  t->waiting = &r, t->ticket = r.generation, t->site = site;
  to_scheduler(t);
  t->waiting = nullptr;
}

void open_if_complete(BlockBarrier& b) {  // threads that have exited are not waited for
  if (b.arrived == 0 || b.arrived < alive) return;
  b.result = b.trues, b.trues = 0;
  b.open();
}

void fiber_main() {
  if (__sanitizer_finish_switch_fiber)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_size);
  for (;;) {  // one round per block
    Thread* t = current;
    if (__tsan_acquire) __tsan_acquire(&begin_token);
    (*kernel)();
    if (__tsan_release) __tsan_release(&end_token);
    t->done = true, --alive;
    open_if_complete(barrier);
    to_scheduler(t);
  }
}

void add_thread() {
  Thread& t = pool.emplace_back();
  char* map = static_cast<char*>(
      mmap(nullptr, kGuard + kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (map == MAP_FAILED) std::perror("simt: mmap"), std::abort();
  mprotect(map, kGuard, PROT_NONE);
  t.stack = map + kGuard;
  prepare(t.context, t.stack, kStack - pool.size() % 61 * 64, fiber_main);  // offset: spread over cache sets
  if (__tsan_create_fiber) t.tsan = __tsan_create_fiber(0);
}

void begin_block(unsigned b, dim3 grid, dim3 block) {
  alive = threads;
  rotation = 37 * b % threads;
  for (unsigned i = 0; i < threads; ++i) {
    Thread& t = thread(i);
    t.linear = i, t.lane = i % 32;
    t.thread = {i % block.x, i / block.x % block.y, i / block.x / block.y};
    t.block = {b % grid.x, b / grid.x % grid.y, b / grid.x / grid.y};
    t.block_dim = block, t.grid_dim = grid;
    t.done = false;
  }
}

bool run_warp(unsigned w, const std::vector<unsigned>& lanes) {
  bool ran = false, again = true;
  while (again) {
    again = false;
    for (unsigned lane : lanes) {
      unsigned i = w * 32 + lane;
      if (i >= threads) continue;
      Thread& t = thread(i);
      if (t.done || (t.waiting && t.waiting->generation == t.ticket)) continue;
      resume(&t);
      ran = again = true;
    }
  }
  return ran;
}

// Shared memory starts undefined: fill this OS thread's copy of the program's thread_local
// variables with NaNs. Nothing but the kernel uses them on this thread.
void poison_shared() {
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void*) {
        for (int i = 0; i < info->dlpi_phnum; ++i)
          if (info->dlpi_phdr[i].p_type == PT_TLS && info->dlpi_tls_data)
            std::memset(info->dlpi_tls_data, 0xff, info->dlpi_phdr[i].p_memsz);
        return 1;  // the main program comes first; leave its libraries alone
      },
      nullptr);
}

void run_block(unsigned b, dim3 grid, dim3 block, size_t dynamic_bytes, const std::vector<unsigned>& warp_order,
               const std::vector<unsigned>& lane_order) {
  poison_shared();
  dynamic = dynamic_blocks.emplace_back(new char[dynamic_bytes]).get();  // exact size: ASan sees overruns
  std::memset(dynamic, 0xff, dynamic_bytes);
  if (__tsan_get_current_fiber) scheduler_tsan = __tsan_get_current_fiber();
  if (__tsan_release) __tsan_release(&begin_token);
  begin_block(b, grid, block);
  while (alive) {
    bool progress = false;
    for (unsigned w : warp_order) progress |= run_warp(w, lane_order);
    if (progress) continue;
    for (Thread& t : pool)
      if (!t.done) current = &t, fail("deadlock: this thread waits for threads that never come", t.site);
  }
}

}  // namespace

// ---- interface ----------------------------------------------------------------------------
const Indices& self() { return *current; }
void* dynamic_shared() { return dynamic; }

void print_position() {
  const Indices& t = *current;
  std::fprintf(stderr, "simt: in block (%u,%u,%u) thread (%u,%u,%u)\n", t.block.x, t.block.y, t.block.z, t.thread.x,
               t.thread.y, t.thread.z);
}

void fail(const char* what, Site at) {
  std::fprintf(stderr, "%s:%u: simt: %s\n", at.file_name(), at.line(), what);
  print_position();
  std::abort();
}

unsigned sync_threads(bool predicate, Site site) {
  if (barrier.arrived == 0)
    barrier.site = site;
  else if (!same(barrier.site, site))
    fail("threads of a block meet at different __syncthreads", site);
  char* token = &barrier.token[barrier.generation & 1];
  if (__tsan_release) __tsan_release(token);
  barrier.trues += predicate;
  if (++barrier.arrived == alive)
    open_if_complete(barrier);
  else
    wait(barrier, site);
  if (__tsan_acquire) __tsan_acquire(token);
  return barrier.result;
}

const uint64_t* warp_gather(unsigned mask, uint64_t value, bool fence, Site site) {
  unsigned bit = 1u << current->lane;
  if (!(mask & bit)) fail("the calling lane is not in the mask", site);
  LaneGroup& g = warps[current->linear / 32].groups[__builtin_ctz(mask)];
  if (g.arrived == 0)
    g.site = site, g.mask = mask;
  else if (g.mask != mask || !same(g.site, site))
    fail("lanes of a warp meet at different collectives or masks", site);
  char* token = &g.token[g.generation & 1];
  if (fence && __tsan_release) __tsan_release(token);
  uint64_t* slots = g.slots[g.generation & 1];  // two sets: slow lanes still read the last one
  slots[current->lane] = value;
  if ((g.arrived |= bit) == mask)
    g.open();
  else
    wait(g, site);
  if (fence && __tsan_acquire) __tsan_acquire(token);
  return slots;
}

void launch(dim3 grid, dim3 block, size_t dynamic_bytes, const std::function<void()>& body) {
  static std::mutex one_at_a_time;
  std::lock_guard lock(one_at_a_time);
  threads = block.x * block.y * block.z;
  const unsigned blocks = grid.x * grid.y * grid.z;
  if (threads == 0 || threads > 1024 || blocks == 0)
    std::fputs("simt: bad launch configuration\n", stderr), std::abort();
  kernel = &body;
  if (__sanitizer_set_death_callback) __sanitizer_set_death_callback(print_position);
  while (pool.size() < threads) add_thread();
  warps.assign((threads + 31) / 32, {});

  std::vector<unsigned> block_order(blocks), warp_order(warps.size()), lane_order(32);
  const char* seed = std::getenv("SIMT_SEED");
  std::mt19937 random(seed ? std::atoi(seed) : 0);
  for (auto* order : {&block_order, &warp_order, &lane_order}) {
    std::iota(order->begin(), order->end(), 0u);
    if (seed) std::shuffle(order->begin(), order->end(), random);
  }
  const unsigned slice = __tsan_create_fiber ? 1 : blocks;  // for TSan, new shared memory is new addresses
  for (unsigned i = 0; i < blocks; i += slice)
    std::thread([&] {
      for (unsigned k = i; k < i + slice; ++k)
        run_block(block_order[k], grid, block, dynamic_bytes, warp_order, lane_order);
    }).join();
  if (__tsan_acquire) __tsan_acquire(&end_token);
  dynamic_blocks.clear();
}
}  // namespace simt
