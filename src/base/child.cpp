#include "base/child.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/error_text.h"
#include "base/memory_limit.h"

namespace plimsoll {
namespace {

Error child_error(std::string message) {
  return {ErrorKind::environment,
          ExitCode::does_not_fit,
          "E-CHILD",
          "child process",
          std::move(message),
          "a child that plans or measures within the limits of this process",
          {"more memory for the process and its container"}};
}

// The first byte is 'r' before a result, 'e' before an error as JSON.
std::string answer_of(const std::function<std::string()>& work) {
  try {
    return "r" + work();
  } catch (const Error& error) {
    return "e" + text_of(error);
  } catch (const std::bad_alloc&) {
    return "e" +
           text_of(MemoryLimit::holds() ? MemoryLimit::passed() : child_error("memory ran out while planning or measuring"));
  } catch (const std::exception& error) {
    return "e" + text_of(internal_error("child process", error.what()));
  }
}

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

// ---- the end of a child by a crash ----

constexpr std::array kCrashes{SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
constexpr char kOutOfMemory = 'm';  // the answer of a child that crashes because memory ran out

int answers_to = -1;                           // the pipe of this child
volatile std::sig_atomic_t failed_to_get = 0;  // an allocation of C++ has failed

// True if the limit refuses a few more MiB.
bool no_room_left() {
  constexpr std::size_t kFew = 4 << 20;
  void* const more = ::mmap(nullptr, kFew, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (more == MAP_FAILED) return true;
  ::munmap(more, kFew);
  return false;
}

// A library that runs out of memory may crash, and so may a destructor. The parent sees the signal alone. Calls functions that a
// handler may call.
extern "C" void tell_why(int signal) {
  if (failed_to_get != 0 || no_room_left()) {
    [[maybe_unused]] const ssize_t written = ::write(answers_to, &kOutOfMemory, 1);
  }
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

// The handler has a stack of its own, since that of a thread may be the cause.
void watch_crashes(int to) {
  static std::array<std::byte, 64 << 10> stack;
  answers_to = to;
  std::set_new_handler([] {
    failed_to_get = 1;
    throw std::bad_alloc();
  });
  const stack_t own{.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&own, nullptr);
  struct sigaction action {};
  action.sa_handler = tell_why;
  action.sa_flags = SA_ONSTACK;
  for (const int signal : kCrashes) ::sigaction(signal, &action, nullptr);
}

// A child is a copy of the parent: no code may return or throw into that copy.
[[noreturn]] void be_child(const std::function<std::string()>& work, int to, Bytes of_parents) noexcept {
  constexpr int kNoAnswer = 1;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the child ends with its parent
  MemoryLimit::enter_child(of_parents);
  // A destructor that runs out of memory ends the process; the parent reports it.
  if (MemoryLimit::holds()) {
    std::set_terminate([] { std::abort(); });
    watch_crashes(to);
  }
  try {
    write_all(to, answer_of(work));
    ::_exit(0);
  } catch (...) {
    ::_exit(kNoAnswer);
  }
}

constexpr int kAskEvery = 100;  // milliseconds

// Reads until the other end is closed or `stopped` returns true.
std::string read_all(int fd, const std::function<bool()>& stopped) {
  std::string text;
  std::array<char, 4096> piece;
  while (true) {
    pollfd waits{fd, POLLIN, 0};
    if (stopped && ::poll(&waits, 1, kAskEvery) <= 0) {
      if (stopped()) return text;
      continue;
    }
    const ssize_t n = ::read(fd, piece.data(), piece.size());
    if (n == 0 || (n < 0 && errno != EINTR)) return text;
    if (n > 0) text.append(piece.data(), static_cast<std::size_t>(n));
  }
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

}  // namespace

Error stopped_while_planning() {
  return {ErrorKind::user,
          ExitCode::interrupted,
          "E-INTERRUPTED",
          "plan",
          "it was stopped while it planned: nothing has been saved",
          "a command that runs to its end"};
}

std::string run_in_child(const std::function<std::string()>& work, const std::function<bool()>& stopped) {
  std::array<int, 2> ends{};
  if (::pipe(ends.data()) != 0) throw child_error(fmt::format("no pipe: {}", std::strerror(errno)));
  std::fflush(nullptr);
  const Bytes held = MemoryLimit::held_while_waiting();
  const pid_t pid = ::fork();
  if (pid < 0) {
    const int error = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw child_error(fmt::format("the system starts no child: {}", std::strerror(error)));
  }
  if (pid == 0) {
    ::close(ends[0]);
    be_child(work, ends[1], held);
  }
  ::close(ends[1]);
  const std::string answer = read_all(ends[0], stopped);
  ::close(ends[0]);
  const bool ended = stopped && stopped();
  if (ended) ::kill(pid, SIGKILL);
  const int status = wait_for(pid);
  if (ended) throw stopped_while_planning();
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (MemoryLimit::holds() && answer == std::string(1, kOutOfMemory)) throw MemoryLimit::passed();
    if (std::ranges::find(kCrashes, signal) != kCrashes.end()) {
      throw internal_error("child process",
                           fmt::format("the child that plans or measures crashed: signal {} ({})", signal, strsignal(signal)));
    }
    throw child_error(fmt::format("the child was ended by signal {} ({}){}", signal, strsignal(signal),
                                  signal == SIGKILL ? ": perhaps memory ran out" : ""));
  }
  if (answer.empty()) throw child_error(fmt::format("the child ended with status {} and no answer", WEXITSTATUS(status)));
  if (answer[0] == 'e') {
    if (std::optional<Error> error = error_from(answer.substr(1))) throw *std::move(error);
    throw child_error("the child ended in the middle of an error report");
  }
  return answer.substr(1);
}

}  // namespace plimsoll
