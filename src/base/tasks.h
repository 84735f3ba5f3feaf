// Independent tasks on a few threads of their own: planning runs before any kernel, separate from the kernels' threads.
#pragma once

#include <cstddef>
#include <functional>

namespace plimsoll {

// Runs body(0) to body(count - 1), each once, in any order, on one thread per processor, at most eight. After all have ended,
// throws the exception of the failed task with the lowest number.
void run_tasks(std::size_t count, const std::function<void(std::size_t)>& body);

}  // namespace plimsoll
