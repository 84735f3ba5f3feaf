#include "device/cuda/emulation.h"

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/error.h"
#include "device/cuda/emulation_products.h"

dim3 threadIdx, blockIdx, blockDim, gridDim;

float __fmul_rn(float a, float b) { return a * b; }
float __fadd_rn(float a, float b) { return a + b; }
float __fsub_rn(float a, float b) { return a - b; }

namespace plimsoll::cuda::emulation {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr unsigned kLanes = 32;
constexpr std::byte kPoison{0xFF};  // NaN as a float

enum class State : std::uint8_t { fresh, ready, at_block, at_warp, done };

// The lanes of a warp exchange by turns in one of two sets of slots: a lane can be ahead of another by one exchange only.
struct Warp {
  alignas(16) std::array<std::byte, 2 * kLanes * kLaneBytes> slots;
  unsigned arrived = 0;
  bool exchanges = true;  // the arrived lanes; otherwise they meet for other work
};

struct Copy {
  void* to;
  const void* from;
  std::size_t bytes;
  unsigned group;
};

struct Thread {
  State state = State::fresh;
  unsigned exchanges = 0;
  std::size_t fiber = 0;
  unsigned copy_groups = 0;  // committed so far
  std::vector<Copy> copies = {};
};

// A stack on which threads run one after the other. A thread that waits keeps its stack.
struct Fiber {
  ucontext_t context;  // of the first turn
  jmp_buf place;       // the place at which it waits, after the first turn
  bool begun = false;
  std::unique_ptr<std::byte[]> stack;
  std::size_t thread = 0;
};

struct Launch {
  const std::function<void()>* body = nullptr;
  std::vector<std::byte> shared;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::size_t current = 0, done = 0, at_block = 0;
  std::size_t started = 0;  // number of started threads, in order
  std::exception_ptr error;
};

Launch launch;
jmp_buf scheduler;
std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<std::size_t> idle;
bool reversed_turns = false;

std::map<const void*, std::size_t> allowed_shared;  // of Hopper at most 227 KiB

std::size_t thread_at(std::size_t turn) { return reversed_turns ? launch.threads.size() - 1 - turn : turn; }

void become(std::size_t thread) {
  const auto index = static_cast<unsigned>(thread);
  launch.current = thread;
  threadIdx = {index % blockDim.x, index / blockDim.x % blockDim.y, index / blockDim.x / blockDim.y};
}

// swapcontext would read the signal mask by a system call on each of the millions of turns.
void change_stack(jmp_buf& from, jmp_buf& to) {
  if (_setjmp(from) == 0) _longjmp(to, 1);
}

// Threads that never wait run one after the other without a change of stacks.
void run_fiber(std::size_t number) {
  Fiber& fiber = *fibers[number];
  for (;;) {
    become(fiber.thread);
    try {
      (*launch.body)();
    } catch (...) {
      if (!launch.error) launch.error = std::current_exception();
    }
    launch.threads[launch.current].state = State::done;
    ++launch.done;
    if (launch.started < launch.threads.size() && !launch.error) {
      fiber.thread = thread_at(launch.started++);
      launch.threads[fiber.thread].fiber = number;
      continue;
    }
    idle.push_back(number);
    change_stack(fiber.place, scheduler);
  }
}

std::size_t idle_fiber() {
  if (idle.empty()) {
    fibers.push_back(std::make_unique<Fiber>());
    Fiber& fiber = *fibers.back();
    fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStackBytes);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStackBytes;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, reinterpret_cast<void (*)()>(run_fiber), 1, fibers.size() - 1);
    idle.push_back(fibers.size() - 1);
  }
  const std::size_t number = idle.back();
  idle.pop_back();
  return number;
}

void resume(std::size_t thread) {
  Thread& to = launch.threads[thread];
  if (to.state == State::fresh) {
    to.fiber = idle_fiber();
    fibers[to.fiber]->thread = thread;
  }
  to.state = State::ready;
  become(thread);
  Fiber& fiber = *fibers[to.fiber];
  if (std::exchange(fiber.begun, true)) return change_stack(scheduler, fiber.place);
  if (_setjmp(scheduler) == 0) setcontext(&fiber.context);
}

void wait(State where) {
  Thread& self = launch.threads[launch.current];
  self.state = where;
  const std::size_t thread = launch.current;
  change_stack(fibers[self.fiber]->place, scheduler);
  become(thread);
  if (launch.error) std::rethrow_exception(launch.error);  // the block has ended: leave the kernel
}

void release(std::size_t begin, std::size_t end, State where) {
  for (std::size_t i = begin; i < end; ++i) {
    if (launch.threads[i].state == where) launch.threads[i].state = State::ready;
  }
}

void release_block() {
  if (launch.at_block == 0 || launch.at_block + launch.done < launch.threads.size()) return;
  launch.at_block = 0;
  pass_barrier();
  release(0, launch.threads.size(), State::at_block);
}

// The last lane of a warp to arrive calls `work`, and all go on.
template <class F>
void arrive(bool exchanges, F work) {
  const std::size_t first = launch.current - launch.current % kLanes;
  Warp& warp = launch.warps[first / kLanes];
  if (warp.arrived == 0) warp.exchanges = exchanges;
  ensure(warp.exchanges == exchanges, "emulation", "lanes of a warp wait for each other at different places");
  if (++warp.arrived < kLanes) return wait(State::at_warp);
  warp.arrived = 0;
  work();
  release(first, first + kLanes, State::at_warp);
}

void run_block() {
  launch.current = launch.done = launch.at_block = launch.started = 0;
  std::fill(launch.threads.begin(), launch.threads.end(), Thread{});
  for (Warp& warp : launch.warps) warp.arrived = 0;
  std::fill(launch.shared.begin(), launch.shared.end(), kPoison);
  begin_products_of_block();
  while (launch.done < launch.threads.size()) {
    bool ran = false;
    for (std::size_t turn = 0; turn < launch.threads.size(); ++turn) {
      const std::size_t thread = thread_at(turn);
      const State state = launch.threads[thread].state;
      const bool waits = state == State::at_block || state == State::at_warp;
      if (state == State::fresh && launch.error) {
        launch.threads[thread].state = State::done;
        ++launch.done;
      } else if (state == State::fresh || state == State::ready || (waits && launch.error)) {
        if (state == State::fresh) launch.started = turn + 1;
        resume(thread);
        ran = true;
      }
    }
    release_block();
    if (ran || launch.error) continue;
    const bool waits = std::any_of(launch.threads.begin(), launch.threads.end(),
                                   [](const Thread& thread) { return thread.state == State::ready; });
    if (!waits)
      launch.error = std::make_exception_ptr(internal_error("emulation", "threads of a block wait for others that never come"));
  }
  if (launch.error) std::rethrow_exception(std::exchange(launch.error, nullptr));
  end_products_of_block();
}

}  // namespace

void allow_shared(const void* kernel, std::size_t bytes) {
  constexpr std::size_t kMost = 227 << 10;  // of a block on Hopper
  ensure(bytes <= kMost, "emulation", "more shared memory than a block can have");
  allowed_shared[kernel] = bytes;
}

void check_launch(const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  constexpr unsigned kMostThreads = 1024, kMostAcross = 65535, kMostAlong = 0x7FFFFFFF;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  ensure(threads > 0 && threads <= kMostThreads && threads % kLanes == 0, "emulation",
         "a block is of whole warps, of up to 1,024 threads");
  ensure(grid.x > 0 && grid.x <= kMostAlong, "emulation", "no number of blocks that a grid can have");
  ensure(grid.y > 0 && grid.y <= kMostAcross && grid.z > 0 && grid.z <= kMostAcross, "emulation",
         "no number of blocks that a grid can have in its second or third direction");
  const auto allowed = allowed_shared.find(kernel);
  ensure(shared_bytes <= (allowed == allowed_shared.end() ? kPlainShared : std::max(kPlainShared, allowed->second)), "emulation",
         "more shared memory than the kernel has been allowed");
}

void run(dim3 grid, dim3 block, std::size_t shared_bytes, const std::function<void()>& body) {
  const std::size_t threads = std::size_t{block.x} * block.y * block.z;
  launch.body = &body;
  launch.shared.assign(shared_bytes, kPoison);
  launch.threads.assign(threads, {});
  launch.warps.resize(threads / kLanes);
  blockDim = block;
  gridDim = grid;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z) {
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run_block();
    }
  }
}

std::byte* shared_memory() { return launch.shared.data(); }
std::span<std::byte> shared_bytes() { return launch.shared; }
std::size_t thread_of_block() { return launch.current; }
std::size_t threads_of_block() { return launch.threads.size(); }
unsigned lane() { return static_cast<unsigned>(launch.current % kLanes); }
void reverse_turns(bool reversed) { reversed_turns = reversed; }

void sync_threads() {
  ++launch.at_block;
  wait(State::at_block);
}

void copy_later(void* to, const void* from, std::size_t bytes) {
  Thread& thread = launch.threads[launch.current];
  std::memset(to, static_cast<int>(kPoison), bytes);
  thread.copies.push_back({to, from, bytes, thread.copy_groups});
}

void commit_copies() { ++launch.threads[launch.current].copy_groups; }

void wait_for_copies(unsigned pending) {
  Thread& thread = launch.threads[launch.current];
  std::erase_if(thread.copies, [&](const Copy& copy) {
    if (copy.group + pending >= thread.copy_groups) return false;
    if (copy.from == nullptr) std::memset(copy.to, 0, copy.bytes);
    if (copy.from != nullptr) std::memcpy(copy.to, copy.from, copy.bytes);
    return true;
  });
}

const std::byte* exchange(const void* mine, std::size_t bytes) {
  const std::size_t self = launch.current;
  std::byte* slots = launch.warps[self / kLanes].slots.data() + (launch.threads[self].exchanges++ % 2) * kLanes * kLaneBytes;
  std::memcpy(slots + self % kLanes * kLaneBytes, mine, bytes);
  arrive(true, [] {});
  return slots;
}

void meet_in_warp(const std::function<void()>& work) { arrive(false, work); }

}  // namespace plimsoll::cuda::emulation
