// Independent pieces of work on a few threads of their own: planning runs before any kernel does, and apart from their team.
#pragma once

#include <cstddef>
#include <functional>

namespace plimsoll {

// Runs body(0) to body(count - 1), each once, in whatever order, on as many threads as there are processors, eight at the most.
// Throws what the first of them that failed, by number, has thrown, when all have ended.
void run_tasks(std::size_t count, const std::function<void(std::size_t)>& body);

}  // namespace plimsoll
