// The team of compute threads. `parallel_for` runs body(task) for each task in [0, tasks) on the team.
// The assignment of tasks to threads never changes a result: kernels cut their work into tiles by shape, not by thread count.
// OpenMP by default; with PLIMSOLL_STD_THREADS a std::thread pool (ThreadSanitizer does not understand libgomp).
// The team's threads flush denormal numbers to zero, the calling thread from its first call on.
// Only one thread of the process may call this: a second one would get a second team with its own stacks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

namespace plimsoll::cpu {

int thread_count();
// Sets the team's size; call once, before the first parallel_for.
void set_thread_count(int threads);

namespace detail {
using TaskFunction = void (*)(void* context, std::int64_t task);
void run_tasks(std::int64_t tasks, TaskFunction function, void* context);
}  // namespace detail

template <class Body>
void parallel_for(std::int64_t tasks, Body&& body) {
  using Plain = std::remove_reference_t<Body>;
  detail::run_tasks(
      tasks, [](void* context, std::int64_t task) { (*static_cast<Plain*>(context))(task); },
      const_cast<void*>(static_cast<const void*>(&body)));
}

struct SlotTask {
  std::int64_t task, slot;
  std::int64_t following;  // the probable next task of the slot; -1: none
};

// Runs body(SlotTask) for each task, at most `threads` at a time; concurrent tasks have different slots. Slot s begins with task
// s, so that each slot's scratch is used with any timing; a free slot takes the next task.
template <class Body>
void parallel_slots(std::int64_t tasks, int threads, const Body& body) {
  const std::int64_t slots = std::min<std::int64_t>(tasks, threads);
  std::atomic<std::int64_t> next{slots};
  parallel_for(slots, [&](std::int64_t slot) {
    for (std::int64_t task = slot; task < tasks; task = next.fetch_add(1, std::memory_order_relaxed)) {
      body(SlotTask{task, slot, task + slots < tasks ? task + slots : -1});
    }
  });
}

}  // namespace plimsoll::cpu
