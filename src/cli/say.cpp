#include "cli/say.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "cli/signals.h"

namespace plimsoll {
namespace {

// Of a terminal or pipe that does not make its writers wait.
bool takes_more_soon() {
  constexpr int kMilliseconds = 1000;
  pollfd stream{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&stream, 1, kMilliseconds) == 1;
}

}  // namespace

// stderr has no buffer, so what others print there keeps its place.
void say_text(std::string_view text) noexcept {
  while (!text.empty()) {
    const ssize_t put = ::write(STDERR_FILENO, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN && takes_more_soon()) continue;
    if (put < 0 && errno == EPIPE) stop_for_closed_pipe();
    if (put <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

void say_line(std::string_view line) { say_text(std::string(line) + "\n"); }

}  // namespace plimsoll
