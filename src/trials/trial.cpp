#include "trials/trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/shell.h"
#include "device/process_memory.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "records/line_reader.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostOutput = std::int64_t{64} << 20;
constexpr Bytes kGrowth{4 << 20};  // of this process while a trial runs

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

// The bytes that a refused plan lacks, from the object on stdout.
std::optional<Bytes> shortfall_of(const std::string& out) {
  const json object = json::parse(out, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("infeasible") || !object["infeasible"].is_object()) return {};
  const json& bytes = object["infeasible"].value("short_bytes", json());
  return bytes.is_number_integer() ? std::optional(Bytes{bytes.get<std::int64_t>()}) : std::nullopt;
}

// Shows each new line of a run to `follow`, until it asks for the end.
std::function<bool()> follower(const std::filesystem::path& run, const std::function<bool(const Metrics&)>& follow) {
  if (!follow) return {};
  return [follow, lines = LineFollower(run / kMetricsFile), enough = false]() mutable {
    const auto see = [&](std::string_view line) {
      const std::optional<Metrics> metrics = metrics_of_line(line);
      if (metrics && follow(*metrics)) enough = true;
    };
    lines.poll(see, [] {});
    return enough;
  };
}

}  // namespace

// E-CHILD shares the exit code of a lack of room, but says nothing about the budget.
bool Trial::fits() const {
  const std::initializer_list<std::string_view> rooms{"E-DISK-SIZE", "E-DISK-FULL", "E-HOST-SIZE"};
  const bool no_room = std::any_of(rooms.begin(), rooms.end(), [&](std::string_view room) { return said.starts_with(room); });
  return !no_room && (exit_code != static_cast<int>(ExitCode::does_not_fit) || said.starts_with("E-CHILD"));
}

std::string Trial::code() const { return said.starts_with("E-") ? said.substr(0, said.find(' ')) : ""; }

// Broken: files, the disk, a GPU, or an outside signal, such as out of memory. A crash of the program is a failure.
Trial::End Trial::end() const {
  if (ran()) return End::ran;
  if (asked == ProcessEnd::Asked::by_look || asked == ProcessEnd::Asked::by_time) return End::stopped;
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

Bytes left_by_this_process(Bytes budget) { return std::max(Bytes{0}, budget - counted_resident() - kGrowth); }

Trials::Trials(const Config& config, TrialPlace place, std::function<void(const std::string&)> tell)
    : place_(std::move(place)), config_(place_.folder / "config.toml"), tell_(std::move(tell)) {
  write_file_atomically(config_, resolved_toml(config));
}

Trials::Ended Trials::start(const std::vector<std::string>& command, const TrialRequest& request,
                            const std::vector<std::string>& more, std::function<bool()> look) {
  const auto stop = [&] {
    return Error(ErrorKind::user, ExitCode::interrupted, "E-INTERRUPTED", place_.command, "it was stopped",
                 "a command that runs to its end");
  };
  if (signals_.stopped()) throw stop();
  std::vector<std::string> words{"plimsoll"};
  words.insert(words.end(), command.begin(), command.end());
  words.push_back(config_.string());
  for (const Change& change : request.changes) words.insert(words.end(), {"--set", change.key + "=" + change.value});
  words.insert(words.end(), request.options.begin(), request.options.end());
  if (request.shared) words.insert(words.end(), {"--memory", std::to_string(left_by_this_process(*request.shared).n)});
  words.insert(words.end(), more.begin(), more.end());
  Ended ended;
  for (const std::string& word : words) ended.command += (ended.command.empty() ? "" : " ") + shell_quoted(word);
  tell_(request.name);
  const std::filesystem::path out = place_.folder / "out", error = place_.folder / "error";
  ended.process = run_process(
      {place_.program, std::move(words), out, error, request.most_seconds, place_.patience, std::move(look)}, signals_);
  if (signals_.stopped()) throw stop();
  ended.error = telling_line(error);
  ended.out = read_text(out, kMostOutput, "E-IO-READ");
  return ended;
}

Trial Trials::run(const TrialRequest& request) {
  Trial trial;
  trial.folder = place_.folder / request.name;
  if (std::find(request.options.begin(), request.options.end(), "--resume") == request.options.end()) forget(trial);
  std::vector<std::string> command{"train"};
  if (request.ranks > 1) command = {"launch", "-n", std::to_string(request.ranks), "train"};
  const Ended ended = start(command, request, {"--updates", std::to_string(request.updates), "--run", trial.folder.string()},
                            follower(trial.folder, request.follow));
  trial.command = ended.command;
  trial.exit_code = ended.process.exit_code;
  trial.asked = ended.process.asked;
  trial.forced = ended.process.forced;
  trial.seconds = ended.process.seconds;
  if (!trial.ran()) {
    trial.said = ended.error;
    trial.shortfall = shortfall_of(ended.out);
  }
  read_metrics(trial.folder, [&](const Metrics& metrics) { trial.updates.push_back(metrics); });
  read_evaluations(trial.folder, [&](const Evaluation& evaluation) { trial.evaluations.push_back(evaluation); });
  return trial;
}

json Trials::plan(const TrialRequest& request) {
  std::vector<std::string> more{"--json"};
  if (request.ranks > 1) more.insert(more.end(), {"--ranks", std::to_string(request.ranks)});
  const Ended ended = start({"plan"}, request, more, {});
  const int code = ended.process.exit_code;
  if (code == 0) return json::parse(ended.out);
  if (code == static_cast<int>(ExitCode::does_not_fit)) {
    throw Error(ErrorKind::user, ExitCode::does_not_fit, "E-PLAN-FIT", place_.command, "the configuration does not fit",
                "one that can be trained: `plimsoll plan CONFIG` lists changes that fit");
  }
  const json error = json::parse(ended.out, nullptr, /*allow_exceptions=*/false);
  const auto word = [&](const char* key) { return error.is_object() ? error.value(key, std::string()) : std::string(); };
  const auto exit = static_cast<ExitCode>(code);
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

}  // namespace plimsoll
