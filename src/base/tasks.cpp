#include "base/tasks.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <system_error>
#include <thread>
#include <vector>

#include "base/memory_limit.h"

namespace plimsoll {

void run_tasks(std::size_t count, const std::function<void(std::size_t)>& body) {
  constexpr std::size_t kMostThreads = 8;
  std::vector<std::exception_ptr> failures(count);
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        body(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  const std::size_t processors = std::max<std::size_t>(1, std::thread::hardware_concurrency());
  std::vector<std::jthread> others;
  try {
    const std::size_t threads = MemoryLimit::threads(std::min({count, processors, kMostThreads}));
    for (std::size_t i = 1; i < threads; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads are available: the existing ones do all work.
  }
  work();
  others.clear();  // waits for them
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace plimsoll
