#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/shell.h"
#include "base/stop_signals.h"
#include "cli/commands.h"
#include "cli/ranks.h"
#include "cli/say.h"

namespace plimsoll {
namespace {

constexpr double kSecondsToEnd = 6;          // of mpirun after the report of a lost rank
constexpr int kLook = 200;                   // milliseconds
constexpr const char* kSecondsToKill = "2";  // from the end of one rank to SIGKILL for the others

int signals_to = -1;  // a pipe, read by the loop below

void pass_on(int signal) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(signal);
  [[maybe_unused]] const ssize_t written = ::write(signals_to, &byte, 1);
  errno = error;
}

void catch_signals_for_ranks() {
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  for (const StopSignal& signal : kStopSignals) {
    if (signal.number != SIGPIPE) sigaction(signal.number, &action, nullptr);
  }
  ::signal(SIGPIPE, SIG_IGN);
}

// "35,36": the signals that ranks understand.
std::string passed_signals() {
  std::string list;
  for (std::size_t i = 0; i < kStopSignals.size(); ++i) list += fmt::format("{}{}", i == 0 ? "" : ",", passed_signal(i));
  return list;
}

std::vector<std::string> command_line(const LaunchArguments& arguments) {
  std::error_code ignored;
  std::vector<std::string> words{"mpirun",          "--bind-to", "none",
                                 "--oversubscribe", "--mca",     "odls_base_sigkill_timeout",
                                 kSecondsToKill,    "--mca",     "ess_base_forward_signals",
                                 passed_signals(),  "-n",        std::to_string(arguments.count)};
  if (::geteuid() == 0) words.insert(words.begin() + 1, "--allow-run-as-root");
  if (!arguments.hosts.empty()) words.insert(words.end(), {"--hostfile", arguments.hosts});
  words.push_back(std::filesystem::read_symlink("/proc/self/exe", ignored).string());
  words.insert(words.end(), arguments.words.begin(), arguments.words.end());
  return words;
}

[[noreturn]] void become(const std::vector<std::string>& words, const char* program) {
  std::vector<char*> list;
  for (const std::string& word : words) list.push_back(const_cast<char*>(word.c_str()));
  list.push_back(nullptr);
  ::execvp(program, list.data());
  constexpr int kNotFound = 127;
  ::_exit(kNotFound);
}

// The lines of mpirun about its job lie between lines of dashes. They are held back; all others are passed on.
class Output {
 public:
  void take(std::string_view bytes) {
    text_ += bytes;
    for (std::size_t end = 0; (end = text_.find('\n')) != std::string::npos; text_.erase(0, end + 1)) {
      take_line(text_.substr(0, end));
    }
  }
  void end() {
    if (!text_.empty()) say_marked(text_);
    text_.clear();
  }
  const std::string& held() const { return held_; }
  // seconds_now() of the report of a lost rank; 0: none.
  double lost_at() const { return lost_at_; }

 private:
  void take_line(const std::string& line) {
    constexpr std::size_t kDashes = 70;
    if (line.size() >= kDashes && line.find_first_not_of('-') == std::string::npos) {
      inside_ = !inside_;
    } else if (inside_) {
      held_ += line + "\n";
    } else if (line.starts_with("mpirun: Forwarding signal")) {
      return;
    } else if (line.find("more process") == std::string::npos || line.find("sent help message") == std::string::npos) {
      if (line.starts_with("E-RANK-LOST") && lost_at_ == 0) lost_at_ = seconds_now();
      say_marked(line + "\n");
    }
  }

  std::string text_, held_;
  bool inside_ = false;
  double lost_at_ = 0;
};

// The rank that a signal ended, from the words of mpirun.
struct Ended {
  int rank = -1, signal = 0;
  std::string host;
};
Ended ended_in(const std::string& text) {
  Ended ended;
  std::array<char, 256> host{};
  int pid = 0;
  std::string line = text;
  std::ranges::replace(line, '\n', ' ');
  const std::size_t at = line.find("process rank ");
  if (at != std::string::npos && std::sscanf(line.c_str() + at, "process rank %d with PID %d on node %255s exited on signal %d",
                                             &ended.rank, &pid, host.data(), &ended.signal) == 4) {
    ended.host = host.data();
  } else {
    ended.rank = -1;
  }
  return ended;
}

Remedy resumed(const LaunchArguments& arguments) {
  const auto run = std::ranges::find(arguments.words, "--run");
  const bool named = run != arguments.words.end() && run + 1 != arguments.words.end();
  return fmt::format("plimsoll launch -n {} train --run {} --resume", arguments.count, named ? shell_quoted(*(run + 1)) : "DIR");
}

Error lost(const Ended& ended, const LaunchArguments& arguments) {
  return {ErrorKind::environment,
          ExitCode::interrupted,
          "E-RANK-LOST",
          fmt::format("rank {} on {}", ended.rank, ended.host),
          fmt::format("its process was ended by signal {} ({}), and the others with it", ended.signal, strsignal(ended.signal)),
          "ranks that last to the end; the run can be resumed from its last checkpoint",
          {resumed(arguments)}};
}

Error no_mpirun() {
  return {ErrorKind::environment,
          ExitCode::configuration,
          "E-RANK-MPI",
          "mpirun",
          "there is no such program",
          "mpirun of Open MPI 4.1 on the PATH",
          {"apt-get install openmpi-bin"}};
}

Error not_started(const std::string& text, int code) {
  std::string line = text.empty() ? fmt::format("it ended with status {}", code) : text;
  std::ranges::replace(line, '\n', ' ');
  return {ErrorKind::environment, ExitCode::configuration,
          "E-RANK-LAUNCH",        "mpirun",
          std::move(line),        "hosts that run the program, and a way to reach them"};
}

Error interrupted() {
  return {ErrorKind::user, ExitCode::interrupted,        "E-INTERRUPTED",
          "launch",        "it was stopped by a signal", "a training that runs to its end, or is resumed"};
}

// mpirun passes the first signal to the ranks, which save and stop. SIGTERM makes it end them.
class Job {
 public:
  explicit Job(const std::vector<std::string>& words) {
    std::array<int, 2> errors{}, signals{};
    if (::pipe2(errors.data(), O_CLOEXEC) != 0 || ::pipe2(signals.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
      throw not_started(std::strerror(errno), 0);
    }
    errors_ = errors[0], signals_ = signals[0], signals_to = signals[1];
    catch_signals_for_ranks();
    pid_ = ::fork();
    if (pid_ < 0) throw not_started(std::strerror(errno), 0);
    if (pid_ == 0) {
      ::setpgid(0, 0);  // a terminal sends its signals to this process alone
      ::prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (const int null = ::open("/dev/null", O_RDONLY); null >= 0) ::dup2(null, STDIN_FILENO);
      ::dup2(errors[1], STDERR_FILENO);
      become(words, "mpirun");
    }
    ::close(errors[1]);
  }
  ~Job() {
    ::close(errors_);
    ::close(signals_);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // The status of mpirun, as waitpid() gives it. mpirun waits for a host that cannot be reached: it is ended some time after the
  // report of a lost rank.
  int run() {
    std::array<pollfd, 2> ready{{{errors_, POLLIN, 0}, {signals_, POLLIN, 0}}};
    std::array<char, 4096> piece;
    while (true) {
      const bool lost = output_.lost_at() > 0;
      if (::poll(ready.data(), ready.size(), lost ? kLook : -1) < 0) {
        if (errno != EINTR) break;
        continue;
      }
      if (lost && seconds_now() - output_.lost_at() > kSecondsToEnd) {
        gave_up_ = true;
        ::kill(pid_, SIGKILL);
        break;
      }
      if ((ready[1].revents & POLLIN) != 0) pass_signals();
      if (ready[0].revents == 0) continue;
      const ssize_t n = ::read(errors_, piece.data(), piece.size());
      if (n == 0 || (n < 0 && errno != EINTR)) break;
      if (n > 0) output_.take({piece.data(), static_cast<std::size_t>(n)});
    }
    output_.end();
    int status = 0;
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) pass_signals();
    return status;
  }
  bool stopped() const { return asked_at_ > 0; }
  bool gave_up() const { return gave_up_; }
  const std::string& held() const { return output_.held(); }

 private:
  void pass_signals() {
    constexpr double kSameRequest = 0.25;  // seconds
    unsigned char signal = 0;
    while (::read(signals_, &signal, 1) == 1) {
      const bool again = asked_at_ > 0 && seconds_now() - asked_at_ > kSameRequest;
      if (asked_at_ == 0) {
        const auto* const which = std::ranges::find(kStopSignals, static_cast<int>(signal), &StopSignal::number);
        ::kill(pid_, passed_signal(static_cast<std::size_t>(which - kStopSignals.begin())));
        asked_at_ = seconds_now();
      } else if (again && (signal == SIGINT || signal == SIGTERM || signal == SIGQUIT)) {
        ::kill(pid_, SIGTERM);
      }
    }
  }

  pid_t pid_ = -1;
  int errors_ = -1, signals_ = -1;
  double asked_at_ = 0;  // seconds_now() of the first signal; 0: none
  bool gave_up_ = false;
  Output output_;
};

}  // namespace

int run_launch(const LaunchArguments& arguments) {
  refuse_ranks("launch");
  const std::string command = arguments.words.empty() ? "" : arguments.words.front();
  if (command != "train" && command != "machine") {
    throw config_error("E-RANK-COMMAND", "launch",
                       command.empty() ? "it names no command" : fmt::format("it names '{}'", command),
                       "`train` or `machine`, which run as several processes", {"plimsoll launch -n 2 train CONFIG"});
  }
  std::error_code error;
  if (!arguments.hosts.empty() && !std::filesystem::is_regular_file(arguments.hosts, error)) {
    throw config_error("E-USAGE", "--hosts", fmt::format("{} is not there", arguments.hosts), "a file with a host per line");
  }
  std::fflush(nullptr);
  std::vector<std::string> words = command_line(arguments);
  if (arguments.count == 1) {
    words = arguments.words;
    words.insert(words.begin(), "plimsoll");
    become(words, "/proc/self/exe");
  }
  Job job(words);
  const int status = job.run();
  if (job.gave_up()) return static_cast<int>(ExitCode::interrupted);
  constexpr int kMostOurs = static_cast<int>(ExitCode::verify_failed), kNotFound = 127, kSignalled = 128;
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
  if (code <= kMostOurs) {
    const bool of_rank = code == 0 || job.held().find("non-zero") != std::string::npos;
    if (!of_rank && !job.stopped()) throw not_started(job.held(), code);
    return code;
  }
  if (job.stopped()) throw interrupted();
  if (code == kNotFound) throw no_mpirun();
  if (const Ended ended = ended_in(job.held()); ended.rank >= 0) throw lost(ended, arguments);
  throw not_started(job.held(), code);
}

}  // namespace plimsoll
