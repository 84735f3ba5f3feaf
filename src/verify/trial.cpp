#include "verify/trial.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/shell.h"
#include "base/stop_signals.h"
#include "formats/atomic_file.h"
#include "formats/file.h"

namespace plimsoll::verification {
namespace {

using nlohmann::json;

constexpr const char* kThisProgram = "/proc/self/exe";
constexpr std::int64_t kMostOutput = std::int64_t{64} << 20;

volatile std::sig_atomic_t interrupted = 0;
volatile pid_t present = 0;  // the current trial

// A terminal signals all processes of a command; a signal to this process alone is passed on.
void on_signal(int signal) {
  interrupted = 1;
  if (present > 0 && signal != SIGINT && signal != SIGQUIT && signal != SIGPIPE) ::kill(present, signal);
}

// Returns the exit code, or 128 plus the signal's number, as shells do.
int run_process(const std::vector<std::string>& words, const std::filesystem::path& out, const std::filesystem::path& error) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK;
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), kFlags, 0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, error.c_str(), kFlags, 0600);
  sigset_t usual;
  sigemptyset(&usual);
  for (const StopSignal& signal : kStopSignals) sigaddset(&usual, signal.number);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, kThisProgram, &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    throw data_error("E-CHILD", "verify", fmt::format("the system starts no process: {}", std::strerror(failed)),
                     "room for one more process");
  }
  present = pid;
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  present = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The line of an error, "E-CODE  [where] message", else the last line with text.
std::string telling_line(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line, last;
  while (std::getline(stream, line)) {
    if (line.starts_with("E-")) return line;
    if (!line.empty()) last = line;
  }
  return last;
}

std::vector<TrialUpdate> read_updates(const std::filesystem::path& file) {
  std::vector<TrialUpdate> updates;
  std::ifstream stream(file);
  std::string line;
  while (std::getline(stream, line)) {
    const json object = json::parse(line);
    const auto number = [&](const char* key) { return object.at(key).is_number() ? object.at(key).get<double>() : 0.0; };
    updates.push_back({number("loss"), number("grad_norm"), number("learning_rate"), object.at("loss_bits").get<std::string>()});
  }
  return updates;
}

// "E-CODE  [where] message" -> the code, and the rest. Without a code the first is empty.
std::pair<std::string, std::string> code_and_text(const std::string& said) {
  const std::size_t space = said.starts_with("E-") ? said.find(' ') : std::string::npos;
  if (space == std::string::npos) return {"", said};
  return {said.substr(0, space), said.substr(std::min(said.find_first_not_of(' ', space), said.size()))};
}

Error broken_by(const Trial& trial) {
  auto [code, text] = code_and_text(trial.said);
  if (code.empty()) {
    return data_error("E-CHILD", "verify", fmt::format("a training was ended from outside, with {}", trial.exit_code),
                      "one that runs to its end", {trial.command});
  }
  return data_error(std::move(code), "verify", std::move(text), "files and a system that last until verify is done",
                    {trial.command});
}

Error not_launched(const Trial& trial) {
  auto [code, text] = code_and_text(trial.said);
  return {ErrorKind::environment, ExitCode::configuration,
          std::move(code),        "verify",
          std::move(text),        "Open MPI 4.1, and a build with it",
          {trial.command}};
}

}  // namespace

// E-CHILD shares the exit code of a lack of room, but says nothing about the budget.
bool Trial::fits() const {
  const std::initializer_list<std::string_view> rooms{"E-DISK-SIZE", "E-DISK-FULL", "E-HOST-SIZE"};
  const bool no_room = std::any_of(rooms.begin(), rooms.end(), [&](std::string_view room) { return said.starts_with(room); });
  return !no_room && (exit_code != static_cast<int>(ExitCode::does_not_fit) || said.starts_with("E-CHILD"));
}

// Broken: files, the disk, a GPU, or an outside signal, such as out of memory. A crash of the program is a failure.
Trial::End Trial::end() const {
  if (ran()) return End::ran;
  if (!fits()) return End::no_room;
  if (said.starts_with("E-CHILD")) return End::broken;
  switch (static_cast<ExitCode>(exit_code)) {
    case ExitCode::configuration: return End::refused;
    case ExitCode::diverged: return End::diverged;
    case ExitCode::data:
    case ExitCode::interrupted: return End::broken;
    default: break;
  }
  constexpr std::array kFromOutside{SIGKILL, SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGXFSZ, SIGXCPU};
  const bool stopped = std::ranges::any_of(kFromOutside, [&](int signal) { return exit_code == 128 + signal; });
  return stopped ? End::broken : End::failed;
}

Trials::Trials(const Config& config, std::filesystem::path folder, std::function<void(const std::string&)> tell)
    : folder_(std::move(folder)), config_(folder_ / "config.toml"), tell_(std::move(tell)) {
  write_file_atomically(config_, resolved_toml(config));
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const StopSignal& signal : kStopSignals) sigaction(signal.number, &action, nullptr);
}

Trials::~Trials() {
  for (const StopSignal& signal : kStopSignals) ::signal(signal.number, SIG_DFL);
}

Trials::Ended Trials::start(const std::vector<std::string>& command, const TrialRequest& request,
                            const std::vector<std::string>& more) const {
  const auto stop = [] {
    return Error(ErrorKind::user, ExitCode::interrupted, "E-INTERRUPTED", "verify", "it was stopped",
                 "a command that runs to its end");
  };
  if (interrupted != 0) throw stop();
  std::vector<std::string> words{"plimsoll"};
  words.insert(words.end(), command.begin(), command.end());
  words.push_back(config_.string());
  for (const Change& change : request.changes) words.insert(words.end(), {"--set", change.key + "=" + change.value});
  words.insert(words.end(), request.options.begin(), request.options.end());
  words.insert(words.end(), more.begin(), more.end());
  Ended ended;
  for (const std::string& word : words) ended.command += (ended.command.empty() ? "" : " ") + shell_quoted(word);
  tell_(request.name);
  const std::filesystem::path out = folder_ / "out", error = folder_ / "error";
  ended.exit_code = run_process(words, out, error);
  if (interrupted != 0) throw stop();
  ended.error = telling_line(error);
  ended.out = read_text(out, kMostOutput, "E-IO-READ");
  return ended;
}

Trial Trials::run(const TrialRequest& request) const {
  Trial trial;
  trial.folder = folder_ / request.name;
  if (std::find(request.options.begin(), request.options.end(), "--resume") == request.options.end()) forget(trial);
  std::vector<std::string> command{"train"};
  if (request.ranks > 1) command = {"launch", "-n", std::to_string(request.ranks), "train"};
  const Ended ended = start(command, request, {"--updates", std::to_string(request.updates), "--run", trial.folder.string()});
  trial.command = ended.command;
  trial.exit_code = ended.exit_code;
  if (ended.exit_code != 0) trial.said = ended.error;
  if (trial.end() == Trial::End::broken) throw broken_by(trial);
  if (trial.said.starts_with("E-RANK-MPI") || trial.said.starts_with("E-RANK-LAUNCH")) throw not_launched(trial);
  if (trial.ran()) trial.updates = read_updates(trial.folder / "metrics.jsonl");
  return trial;
}

json Trials::plan(const TrialRequest& request) const {
  std::vector<std::string> more{"--json"};
  if (request.ranks > 1) more.insert(more.end(), {"--ranks", std::to_string(request.ranks)});
  const Ended ended = start({"plan"}, request, more);
  if (ended.exit_code == 0) return json::parse(ended.out);
  if (ended.exit_code == static_cast<int>(ExitCode::does_not_fit)) {
    throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", "verify", "the configuration does not fit",
                "one that can be trained: `plimsoll plan CONFIG` lists changes that fit");
  }
  const json error = json::parse(ended.out, nullptr, /*allow_exceptions=*/false);
  const auto word = [&](const char* key) { return error.is_object() ? error.value(key, std::string()) : std::string(); };
  const auto exit = static_cast<ExitCode>(ended.exit_code);
  Remedies remedies;
  if (error.is_object()) {
    for (std::string& advice : error.value("try", std::vector<std::string>{})) remedies.emplace_back(std::move(advice));
  }
  throw Error(exit == ExitCode::internal ? ErrorKind::internal : ErrorKind::user, exit, word("code"), word("where"),
              word("message"), word("expected"), std::move(remedies));
}

void Trials::forget(const Trial& trial) {
  std::error_code ignored;
  std::filesystem::remove_all(trial.folder, ignored);
}

}  // namespace plimsoll::verification
