#include "records/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "formats/atomic_file.h"
#include "formats/atomic_folder.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "formats/new_folder.h"
#include "formats/tokenizer_folder.h"
#include "formats/weight_files.h"
#include "records/best_weights.h"
#include "records/line_reader.h"
#include "records/update_lines.h"

namespace plimsoll {
namespace {

constexpr const char *kMetrics = kMetricsFile, *kEvaluations = kEvaluationsFile, *kEvents = kEventsFile, *kAnswers = kAnswersFile;

Error cannot_write(const std::filesystem::path& path, const std::string& why) {
  return data_error("E-IO-WRITE", path.string(), "it cannot be written: " + why, "a folder that exists or can be created");
}

Error not_of_run(const std::filesystem::path& path, std::string what) {
  return data_error("E-IO-WRITE", path.string(), std::move(what),
                    "in the folder of a run, files and folders that belong to it, or a new folder");
}

// True if the folder holds a checkpoint, weights or metrics.
bool holds_results(const RunFolder& folder) {
  return folder.has_updates() || folder.has_checkpoint() || is_there(folder.diverged()) || has_weights(folder.weights());
}

Error already_holds_run(const RunFolder& folder) {
  const std::string beside = new_folder_beside(folder.path()).string();
  Changes changes{{"command.run", folder.path().string()}, {"command.resume"}};
  std::string expected = "a new folder, or this run resumed";
  if (!folder.has_checkpoint() && is_there(folder.diverged())) {
    changes.emplace_back("train.on_divergence", "continue");
    expected = "a new folder, or this run resumed although it has diverged";
  } else if (!folder.has_checkpoint() && !has_weights(folder.weights())) {
    changes = {{"command.run", beside}};
    expected = "a new folder: this run ended before its first save, and the lines of its updates are kept";
  } else if (!folder.has_checkpoint()) {
    changes = {{"command.run", beside}, {"model.init", std::filesystem::absolute(folder.weights()).string()}};
    expected = "a new folder, in which a run may begin with these weights: there is no checkpoint";
  }
  const std::string status = run_status(folder.path());
  const std::string which = status.empty() ? "" : fmt::format(" ({})", status);
  return config_error("E-RUN-EXISTS", folder.path().string(), "it already holds a run" + which, expected,
                      {Remedy::of_command("train CONFIG", std::move(changes))});
}

std::string status_in(const nlohmann::json& run) {
  const auto status = run.find("status");
  return status != run.end() && status->is_string() ? status->get<std::string>() : std::string();
}

std::optional<std::int64_t> pid_in(const nlohmann::json& run) {
  const auto pid = run.find("pid");
  return pid != run.end() && pid->is_number_integer() ? std::optional(pid->get<std::int64_t>()) : std::nullopt;
}

// Text of files may hold bytes that are not UTF-8.
std::string file_text(const nlohmann::json& run) {
  return run.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// Removes the incomplete files of a killed run. The folder is locked, so no other process writes.
void remove_partial_files(const std::filesystem::path& run) {
  std::error_code ignored;
  for (const std::filesystem::path& folder : {run, run / "weights", run / "weights_ema", run / kBestWeights, run / "tokens"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (is_partial(entry.path()) && !entry.is_directory(ignored)) std::filesystem::remove(entry.path(), ignored);
    }
  }
  for (const auto& entry : std::filesystem::directory_iterator(run / "checkpoints", ignored)) {
    if (is_partial(entry.path())) std::filesystem::remove_all(entry.path(), ignored);
  }
  for (const char* folder : {"weights", "weights_ema", kBestWeights, "diverged"}) recover_folder(run / folder, /*sole=*/true);
}

// True for any existing name, broken links included.
bool is_taken(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

// The broken link on a path, if there is one.
std::optional<std::filesystem::path> dangling_link(std::filesystem::path path) {
  std::error_code ignored;
  for (; path.has_relative_path(); path = path.parent_path()) {
    if (std::filesystem::is_symlink(path, ignored) && !std::filesystem::exists(path, ignored)) return path;
  }
  return {};
}

// The JSON form: null for numbers that are not finite.
std::string_view number_text(double value, std::span<char> room) {
  if (!std::isfinite(value)) return "null";
  const auto end = fmt::format_to_n(room.data(), room.size(), "{}", value);
  return {room.data(), end.size};
}

// Proposes a new folder at a writable place, for a run that has not begun.
Remedies elsewhere(const std::filesystem::path& run) {
  const std::filesystem::path beside = new_folder_beside(run);
  const bool room = access(beside.parent_path().empty() ? "." : beside.parent_path().c_str(), W_OK | X_OK) == 0;
  const std::filesystem::path here = run.has_filename() ? run.filename() : "run";
  return {Change("command.run", (room ? beside : new_folder_beside(here)).string())};
}

}  // namespace

std::filesystem::path RunFolder::checkpoint() const {
  const std::vector<KeptCheckpoint> kept = checkpoints_in(path_);
  return kept.empty() ? path_ / "checkpoints" : kept.back().path;
}

std::filesystem::path RunFolder::diverged() const {
  const std::filesystem::path first_format = path_ / "diverged.safetensors";
  return is_there(first_format) ? first_format : path_ / "diverged";
}

bool RunFolder::has_updates() const {
  std::error_code none;
  const std::uintmax_t size = std::filesystem::file_size(path_ / kMetrics, none);
  return !none && size > 0;
}

RunFolder RunFolder::open(const std::filesystem::path& path, bool resume) {
  std::error_code error;
  RunFolder folder(path);
  const bool begun = is_there(path / "run.json");
  if (begun && !resume && holds_results(folder)) throw already_holds_run(folder);
  if (!begun && resume) {
    throw config_error("E-RUN-MISSING", path.string(), "there is no run to resume", "the folder of a run",
                       {Remedy::of_command("train CONFIG", {{"command.run", path.string()}})});
  }
  folder.begun_ = begun;
  const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  try {
    if (const auto link = dangling_link(whole)) {
      throw cannot_write(path, fmt::format("{} is a link to {}, which is not there", link->string(),
                                           std::filesystem::read_symlink(*link, error).string()));
    }
    folder.create(whole);
    if (!std::filesystem::is_directory(path, error)) throw cannot_write(path, "it is not a folder");
    if (access(path.c_str(), W_OK | X_OK) != 0) throw cannot_write(path, std::strerror(errno));
  } catch (Error& refused) {
    if (!resume) refused.remedies = elsewhere(path);
    throw;
  }
  folder.lock(resume);
  // Another process may have begun or ended a run between the first look and the lock.
  if (!resume && is_there(path / "run.json")) {
    folder.begun_ = folder.begins_anew_ = true;
    if (holds_results(folder)) throw already_holds_run(folder);
  }
  folder.refuse_links();
  if (folder.begun_) remove_partial_files(path);
  if (resume) folder.mark_interrupted();
  return folder;
}

RunFolder RunFolder::of_another_rank(const std::filesystem::path& path) {
  RunFolder folder(path);
  folder.begun_ = true;
  return folder;
}

// Records the folders that it creates: only these may be removed again.
void RunFolder::create(const std::filesystem::path& whole) {
  std::vector<std::filesystem::path> missing;  // innermost first
  for (std::filesystem::path path = whole; path.has_relative_path() && !is_taken(path); path = path.parent_path()) {
    if (path.has_filename()) missing.push_back(path);
  }
  for (; !missing.empty(); missing.pop_back()) {
    std::error_code error;
    if (std::filesystem::create_directory(missing.back(), error)) created_.insert(created_.begin(), missing.back());
    if (error) throw cannot_write(path_, error.message());
  }
}

// Two runs in one folder would overwrite each other's files. The lock is on the folder itself: it leaves no file and ends with
// the process. Some file systems have no locks; then there is none.
void RunFolder::lock(bool resume) {
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  constexpr int kTries = 20;  // a command that looks at the run holds the lock for a moment (is_held)
  for (int i = 0; i < kTries; ++i) {
    if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
    ::usleep(10'000);
  }
  const bool holds_run = std::exchange(begun_, true);  // the other process's run: nothing here may be removed
  const std::optional<std::int64_t> pid = pid_in(run_object(path_));
  const std::string who = pid ? fmt::format("process {} is training in it", *pid) : "another process is about to train in it";
  if (holds_run && !resume) {
    throw config_error("E-RUN-EXISTS", path_.string(), "it already holds a run: " + who,
                       "a new folder, or this run resumed once that process has ended", elsewhere(path_));
  }
  throw config_error(
      "E-RUN-BUSY", path_.string(), who,
      resume ? "a run that no other process trains: wait for it, or end it" : "a folder that no other process uses",
      resume ? Remedies{} : elsewhere(path_));
}

// The lock proves that no other process runs it. Later writes report a folder that cannot be written.
void RunFolder::mark_interrupted() {
  nlohmann::json run = run_object(path_);
  const bool held = lock_ >= 0 && ::flock(lock_, LOCK_EX | LOCK_NB) == 0;
  if (!held || status_in(run) != "running") return;
  ended_process_ = pid_in(run).value_or(0);
  const std::string message = fmt::format("process {} ended without a report; its last checkpoint remains", *ended_process_);
  run["status"] = "interrupted";
  run["exit_code"] = static_cast<int>(ExitCode::interrupted);
  run["error"] = {{"code", "E-INTERRUPTED"}, {"message", message}};
  if (run.contains("segments") && run["segments"].is_array() && !run["segments"].empty() && run["segments"].back().is_object()) {
    nlohmann::json& last = run["segments"].back();
    last["exit_code"] = run["exit_code"], last["code"] = "E-INTERRUPTED";
    if (const std::optional<Metrics> line = last_metrics(path_)) last["last_update"] = line->update;
  }
  try {
    write_run(run);
  } catch (const Error&) {
  }
}

// Links under the run's file names must not redirect its bytes.
void RunFolder::refuse_links() const {
  for (const char* name : {"run.json", "settings.json", "config.resolved.toml", "plan.json", "stored.json", kMetrics,
                           kEvaluations, kEvents, kAnswers, "checkpoint.safetensors", "diverged.safetensors"}) {
    const std::filesystem::path path = path_ / name;
    if (const auto what = other_than_file(path)) throw not_of_run(path, *what);
  }
  std::error_code ignored;
  const auto refuse = [&](const std::filesystem::path& path, bool also_files) {
    if (std::filesystem::is_symlink(path, ignored)) throw not_of_run(path, "it is a link, not a folder");
    if (also_files && is_there(path) && !std::filesystem::is_directory(path, ignored)) throw not_of_run(path, "it is no folder");
  };
  for (const char* name : {"weights", "weights_ema", kBestWeights, "checkpoints", "diverged", "abandoned", "tokens"}) {
    refuse(path_ / name, /*also_files=*/false);
  }
  for (const auto& entry : std::filesystem::directory_iterator(path_ / "checkpoints", ignored)) refuse(entry.path(), true);
}

// True if the path still names the opened folder, or if none could be opened.
bool RunFolder::is_here() const {
  struct stat here {};
  struct stat held {};
  return lock_ < 0 || (::stat(path_.c_str(), &here) == 0 && ::fstat(lock_, &held) == 0 && here.st_dev == held.st_dev &&
                       here.st_ino == held.st_ino);
}

bool RunFolder::follow() {
  if (is_here()) return false;
  std::error_code none;
  const std::filesystem::path before = path_;
  path_ = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", lock_), none);
  if (!none && is_here()) return true;
  // Some file systems number a folder anew each time.
  const bool same = !none && path_ == std::filesystem::canonical(before, none);
  path_ = before;
  if (same) return false;
  throw data_error("E-IO-WRITE", path_.string(), "the folder of the run is not there any more: it was removed or replaced",
                   "a folder that stays while the run writes it");
}

RunFolder::~RunFolder() {
  struct stat status {};
  if (reserved_ && metrics_ >= 0 && ::fstat(metrics_, &status) == 0) [[maybe_unused]]
    const int given_back = ::ftruncate(metrics_, status.st_size);
  for (const int fd : {metrics_, evaluations_, events_, answers_}) {
    if (fd >= 0) close(fd);
  }
  if (!begun_ && !created_.empty() && is_here()) abandon();
  if (lock_ >= 0) close(lock_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      created_(std::exchange(other.created_, {})),
      begun_(other.begun_),
      begins_anew_(other.begins_anew_),
      ended_process_(other.ended_process_),
      evaluated_(other.evaluated_),
      answered_(other.answered_),
      metrics_(std::exchange(other.metrics_, -1)),
      evaluations_(std::exchange(other.evaluations_, -1)),
      events_(std::exchange(other.events_, -1)),
      answers_(std::exchange(other.answers_, -1)),
      reserved_(other.reserved_),
      lock_(std::exchange(other.lock_, -1)) {}

// Removes a new folder with the files of a run about to begin; it stays if it holds anything else.
void RunFolder::abandon() const noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(tokens(), ignored);
  for (const auto names : {tokenizer_files(), generation_files()}) {
    for (const std::string_view name : names) std::filesystem::remove(path_ / "weights" / name, ignored);
  }
  for (const char* file : {"weights/config.json", "weights/adapter_config.json", "config.resolved.toml", "settings.json",
                           "plan.json", "stored.json", "metrics.jsonl", "eval.jsonl", "events.jsonl", kAnswers, "weights"}) {
    std::filesystem::remove(path_ / file, ignored);
  }
  for (const std::filesystem::path& folder : created_) std::filesystem::remove(folder, ignored);
}

void RunFolder::write(const std::string& name, const std::string& text) {
  follow();
  write_file_atomically(path_ / name, text);
}

void RunFolder::write_run(const nlohmann::json& run) {
  write("run.json", file_text(run));
  begun_ = true;
}

nlohmann::json RunFolder::segments() const {
  const nlohmann::json run = run_object(path_);
  const auto found = run.find("segments");
  return found != run.end() && found->is_array() ? *found : nlohmann::json::array();
}

void RunFolder::overwrite_run(const nlohmann::json& run) const noexcept {
  constexpr int kFlags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int fd = lock_ < 0 ? ::open((path_ / "run.json").c_str(), kFlags) : ::openat(lock_, "run.json", kFlags);
  if (fd < 0) return;
  const std::string text = file_text(run);
  const auto size = static_cast<ssize_t>(text.size());
  if (::pwrite(fd, text.data(), text.size(), 0) == size) [[maybe_unused]]
    const int cut = ::ftruncate(fd, size);
  close(fd);
}

void RunFolder::open_metrics(std::int64_t updates) {
  follow();
  const std::filesystem::path path = path_ / kMetrics;
  cut_lines(path, updates, PerUpdate::one);
  metrics_ = open_lines(lock_, path);
}

void RunFolder::append_line(int& fd, const char* name, std::string_view line) const {
  if (fd < 0) fd = open_lines(lock_, path_ / name);
  append_text(fd, path_ / name, line);
}

void RunFolder::read_metrics(const std::function<void(const Metrics&)>& see) const {
  plimsoll::read_metrics(path_, [&](const Metrics& metrics) {
    if (std::isfinite(metrics.loss) && std::isfinite(metrics.grad_norm)) see(metrics);
  });
}

void RunFolder::open_events(std::int64_t updates) { cut_lines(path_ / kEvents, updates, PerUpdate::any); }

void RunFolder::read_events(const std::function<void(const nlohmann::json&)>& see) const { plimsoll::read_events(path_, see); }

void RunFolder::append_event(const nlohmann::json& event) { append_line(events_, kEvents, event.dump() + "\n"); }

void RunFolder::open_evaluations(std::int64_t updates) {
  cut_lines(path_ / kEvaluations, updates, PerUpdate::one);
  read_evaluations([&](const Evaluation& evaluation) { evaluated_ = evaluation.update; });
}

void RunFolder::append(const Evaluation& evaluation) {
  if (evaluated_ >= evaluation.update) {
    if (evaluations_ >= 0) close(std::exchange(evaluations_, -1));  // the file may be replaced
    follow();
    cut_lines(path_ / kEvaluations, evaluation.update - 1, PerUpdate::one);
  }
  std::array<char, 32> loss;
  std::string line =
      fmt::format("{{\"update\":{},\"samples\":{},\"loss\":{},\"loss_bits\":\"{}\",\"units\":{},\"seconds\":{},\"time\":{:.3f}",
                  evaluation.update, evaluation.samples, number_text(evaluation.loss, loss), bits_hex(evaluation.loss),
                  evaluation.units, evaluation.seconds, evaluation.time);
  if (const auto& accuracy = evaluation.accuracy) {
    line += fmt::format(",\"accuracy\":{},\"accuracy_top5\":{}", accuracy->top1, accuracy->top5);
  }
  append_line(evaluations_, kEvaluations, line + "}\n");
  evaluated_ = evaluation.update;
}

void RunFolder::open_answers(std::int64_t updates) {
  cut_lines(path_ / kAnswers, updates, PerUpdate::any);
  plimsoll::read_answers(path_, [&](const Answer& answer) { answered_ = answer.update; });
}

void RunFolder::append(std::span<const Answer> answers) {
  if (answers.empty()) return;
  if (answered_ >= answers.front().update) {
    if (answers_ >= 0) close(std::exchange(answers_, -1));  // the file may be replaced
    follow();
    cut_lines(path_ / kAnswers, answers.front().update - 1, PerUpdate::any);
  }
  std::string lines;
  for (const Answer& each : answers) {
    const nlohmann::json line = {
        {"update", each.update}, {"prompt", each.prompt}, {"answer", each.answer}, {"expected", each.expected}};
    lines += line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  append_line(answers_, kAnswers, lines);
  answered_ = answers.front().update;
}

void RunFolder::read_evaluations(const std::function<void(const Evaluation&)>& see) const {
  plimsoll::read_evaluations(path_, see);
}

std::filesystem::path RunFolder::set_aside(std::int64_t updates) {
  namespace fs = std::filesystem;
  follow();
  fs::path place;
  for (int i = 1; place.empty() || is_there(place); ++i) place = path_ / "abandoned" / std::to_string(i);
  create_folder(place);
  aside_ = place;
  for (const char* name : {kMetrics, kEvaluations, kEvents, kAnswers}) copy_lines_after(path_ / name, updates, place / name);
  const auto move = [&](const fs::path& from, const fs::path& to) {
    std::error_code error;
    fs::rename(from, to, error);
    if (error) throw cannot_write(from, error.message());
  };
  // The newest goes first, so that a kill in between leaves a run of older checkpoints.
  std::vector<KeptCheckpoint> kept = checkpoints_in(path_);
  for (; !kept.empty() && kept.back().update > updates; kept.pop_back()) {
    create_folder(place / "checkpoints");
    move(kept.back().path, place / "checkpoints" / kept.back().path.filename());
  }
  if (is_there(diverged())) move(diverged(), place / diverged().filename());
  return place;
}

std::filesystem::path RunFolder::set_best_aside() {
  namespace fs = std::filesystem;
  follow();
  const fs::path place = (aside_.empty() ? path_ / "abandoned" : aside_) / kBestWeights;
  std::error_code error;
  create_folder(place.parent_path());
  fs::remove_all(place, error);
  fs::rename(best(), place, error);
  if (error) throw cannot_write(best(), error.message());
  return place;
}

void RunFolder::make_folder(const char* name) const {
  const std::filesystem::path path = path_ / name;
  const int made = lock_ < 0 ? ::mkdir(path.c_str(), 0777) : ::mkdirat(lock_, name, 0777);
  if (made != 0 && errno != EEXIST) throw cannot_write(path, std::strerror(errno));
}

void RunFolder::reserve_lines(Bytes metrics) {
  struct stat status {};
  if (metrics_ < 0 || ::fstat(metrics_, &status) != 0) return;
  reserved_ = ::fallocate(metrics_, FALLOC_FL_KEEP_SIZE, status.st_size, metrics.n) == 0;
}

void RunFolder::sync() const {
  for (const char* name : {kMetrics, kEvaluations, kEvents, kAnswers}) sync_file(lock_, path_ / name);
}

void RunFolder::append(const Metrics& metrics) {
  std::array<char, 32> loss, grad_norm, ratio;
  std::array<char, 800> line;
  char* end = line.data();
  const auto add = [&]<class... A>(fmt::format_string<A...> text, A&&... values) {
    end = fmt::format_to_n(end, static_cast<std::size_t>(line.end() - end), text, std::forward<A>(values)...).out;
  };
  add("{{\"update\":{},\"samples\":{},\"units\":{},", metrics.update, metrics.samples, metrics.units);
  add("\"trained_units\":{},\"tokens\":{},\"padding\":{},\"micro_steps\":{},", metrics.units, metrics.positions, metrics.padding,
      metrics.micro_steps);
  add("\"loss\":{},\"loss_bits\":\"{:016x}\",", number_text(metrics.loss, loss), std::bit_cast<std::uint64_t>(metrics.loss));
  add("\"grad_norm\":{},\"grad_norm_bits\":\"{:016x}\",", number_text(metrics.grad_norm, grad_norm),
      std::bit_cast<std::uint64_t>(metrics.grad_norm));
  add("\"learning_rate\":{},", metrics.learning_rate);
  if (metrics.momentum) add("\"momentum\":{},", *metrics.momentum);
  if (metrics.loss_scale) add("\"loss_scale\":{},", *metrics.loss_scale);
  add("\"update_ratio\":{},", number_text(metrics.update_ratio, ratio));
  if (metrics.underflow) add("\"underflow\":{:.4g},", *metrics.underflow);
  if (metrics.spike) add("\"spike\":true,");
  if (metrics.wait_seconds) add("\"wait_seconds\":{:.6f},", *metrics.wait_seconds);
  add("\"time\":{:.3f},", metrics.time);
  add("\"seconds\":{},\"tokens_per_second\":{},\"vm_hwm_bytes\":{}}}\n", metrics.seconds,
      metrics.seconds > 0 ? static_cast<double>(metrics.units) / metrics.seconds : 0.0, metrics.vm_hwm.n);
  append_text(metrics_, path_ / kMetrics, {line.data(), end});
}

}  // namespace plimsoll
