#include "cli/say.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "cli/environment.h"
#include "cli/shown_text.h"
#include "cli/signals.h"

namespace plimsoll {
namespace {

bool silent = false;

// Waits until a non-blocking terminal or pipe accepts more; false if it does not.
bool takes_more_soon() {
  constexpr int kMilliseconds = 1000;
  pollfd stream{STDERR_FILENO, POLLOUT, 0};
  return ::poll(&stream, 1, kMilliseconds) == 1;
}

void print_shown(std::string_view text, ShownAs as) { put_shown(text, as, print_marked); }

template <class Json>
void print_dump(const Json& object) {
  print_document(object.dump(-1, ' ', false, Json::error_handler_t::replace));
  print_marked("\n");
}

bool json_log = false;

void log_note(std::string_view text) noexcept {
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (!text.empty()) log_object({{"event", "note"}, {"text", text}});
}

}  // namespace

// stderr is unbuffered, so output of other code keeps its order.
void say_marked(std::string_view text) noexcept {
  if (silent) return;
  while (!text.empty()) {
    const ssize_t put = ::write(STDERR_FILENO, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0 && errno == EAGAIN && takes_more_soon()) continue;
    if (put < 0 && errno == EPIPE) stop_for_closed_pipe();
    if (put <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
}

void say_text(std::string_view text) noexcept {
  if (logs_json()) return log_note(text);
  put_shown(text, ShownAs::block, say_marked);
}

void log_as_json() { json_log = true; }

bool logs_json() { return json_log; }

void log_object(const nlohmann::json& object) {
  nlohmann::json line = object;
  line["time"] = utc_seconds_now();
  say_marked(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

// Removes the live line, even if another process has drawn it.
void say_line(std::string_view line) {
  if (logs_json()) return log_note(line);
  if (live_terminal()) say_marked("\r\033[K");
  say_text(std::string(line) + "\n");
}

void keep_silent(bool now) { silent = now; }

void print_marked(std::string_view text) {
  if (!silent) fmt::print("{}", text);
}

void print_text(std::string_view text) { print_shown(text, ShownAs::block); }

void print_json(const nlohmann::json& object) { print_dump(object); }
void print_json(const nlohmann::ordered_json& object) { print_dump(object); }

void print_document(std::string_view text) { print_shown(text, ShownAs::json); }

}  // namespace plimsoll
