#include "trials/process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace plimsoll {
namespace {

constexpr double kLookEvery = 0.2;  // seconds
constexpr auto kWaitEvery = std::chrono::milliseconds(5);
constexpr int kNotStarted = 127;  // exit code of a child without a program, as shells have it

class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path)
      : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600)) {
    if (file_ >= 0) return;
    throw data_error("E-IO-WRITE", path.string(), fmt::format("the output of a trial has no place: {}", std::strerror(errno)),
                     "a folder to write into");
  }
  ~OutputFile() { ::close(file_); }
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

// The child's side of a fork: only async-signal-safe calls, and no return.
[[noreturn]] void become(const char* program, char* const* words, int out, int error, pid_t parent) {
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  for (const StopSignal& signal : kStopSignals) ::sigaction(signal.number, &usual, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(128 + SIGTERM);  // it died before the call
  if (::dup2(out, STDOUT_FILENO) >= 0 && ::dup2(error, STDERR_FILENO) >= 0) ::execve(program, words, environ);
  ::_exit(kNotStarted);
}

pid_t start(const ProcessRequest& request) {
  const OutputFile out(request.out), error(request.error);
  std::vector<char*> words;
  for (const std::string& word : request.words) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) become(request.program.c_str(), words.data(), out.get(), error.get(), parent);
  if (child < 0) {
    throw data_error("E-CHILD", "trials", fmt::format("the system starts no process: {}", std::strerror(errno)),
                     "room for one more process");
  }
  return child;
}

// A child that is asked to stop, and forced to once the patience is over.
class Child {
 public:
  Child(pid_t pid, const ProcessRequest& request) : pid_(pid), request_(request) {}
  // An exception of `look` leaves no process behind.
  ~Child() {
    if (ended_) return;
    ::kill(pid_, SIGKILL);
    wait(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool has_ended() {
    if (!ended_) ended_ = wait(WNOHANG);
    return ended_;
  }
  // Signals that came to this process were passed on by the handler.
  void ask(ProcessEnd::Asked why) {
    if (end_.asked != ProcessEnd::Asked::no) return;
    end_.asked = why;
    asked_at_ = seconds();
    if (why != ProcessEnd::Asked::by_signal) ::kill(pid_, SIGTERM);
  }
  void force_if_late() {
    if (end_.forced || end_.asked == ProcessEnd::Asked::no || seconds() - asked_at_ < request_.patience) return;
    end_.forced = true;
    ::kill(pid_, SIGKILL);
  }
  double seconds() const { return seconds_now() - begun_; }
  ProcessEnd end() {
    end_.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    end_.seconds = seconds();
    return end_;
  }

 private:
  bool wait(int flags) {
    pid_t found = 0;
    do {
      found = ::waitpid(pid_, &status_, flags);
    } while (found < 0 && errno == EINTR);
    return found != 0;
  }

  pid_t pid_;
  const ProcessRequest& request_;
  double begun_ = seconds_now(), asked_at_ = 0;
  int status_ = 0;
  bool ended_ = false;
  ProcessEnd end_;
};

}  // namespace

ProcessEnd run_process(const ProcessRequest& request, StopRequests& signals) {
  const pid_t pid = start(request);
  signals.pass_to(pid);
  struct PassToNone {
    StopRequests& signals;
    ~PassToNone() { signals.pass_to(0); }
  } const no_longer{signals};
  Child child(pid, request);
  double looked = 0;
  while (!child.has_ended()) {
    const double now = child.seconds();
    if (signals.stopped()) child.ask(ProcessEnd::Asked::by_signal);
    if (request.most_seconds > 0 && now >= request.most_seconds) child.ask(ProcessEnd::Asked::by_time);
    if (request.look && now - looked >= kLookEvery) {
      looked = now;
      if (request.look()) child.ask(ProcessEnd::Asked::by_look);
    }
    child.force_if_late();
    std::this_thread::sleep_for(kWaitEvery);
  }
  if (child.end().exit_code == kNotStarted) {
    throw data_error("E-CHILD", "trials", fmt::format("the system does not start {}", request.program.string()),
                     "a program that runs");
  }
  return child.end();
}

}  // namespace plimsoll
