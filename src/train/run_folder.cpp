#include "train/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
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
#include "formats/file.h"
#include "train/update_lines.h"

namespace plimsoll {
namespace {

constexpr const char *kMetrics = "metrics.jsonl", *kEvaluations = "eval.jsonl", *kEvents = "events.jsonl";

Error cannot_write(const std::filesystem::path& path, const std::string& why) {
  return data_error("E-IO-WRITE", path.string(), "it cannot be written: " + why, "a folder that exists or can be created",
                    {"--run ANOTHER_FOLDER"});
}

Error already_holds_run(const std::filesystem::path& path) {
  return config_error("E-RUN-EXISTS", path.string(), "it already holds a run", "a new folder, or --resume to continue this one",
                      {fmt::format("plimsoll train CONFIG --run {} --resume", path.string())});
}

std::optional<std::int64_t> pid_of(const std::filesystem::path& run_json) {
  constexpr std::int64_t kMostBytes = 1 << 20;
  try {
    return nlohmann::json::parse(read_text(run_json, kMostBytes, "E-IO-READ")).at("pid").get<std::int64_t>();
  } catch (const std::exception&) {
    return {};
  }
}

// What a run that was killed had not completed. The folder is locked: nobody else is writing.
void remove_partial_files(const std::filesystem::path& run) {
  std::error_code ignored;
  for (const std::filesystem::path& folder : {run, run / "weights", run / "weights_ema", run / "tokens"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
      if (is_partial(entry.path())) std::filesystem::remove(entry.path(), ignored);
    }
  }
}

// A name that is there, if only as a link to what is not.
bool is_taken(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::symlink_status(path, ignored).type() != std::filesystem::file_type::not_found;
}

// Of a path or of what it goes through: the link that leads nowhere.
std::optional<std::filesystem::path> dangling_link(std::filesystem::path path) {
  std::error_code ignored;
  for (; path.has_relative_path(); path = path.parent_path()) {
    if (std::filesystem::is_symlink(path, ignored) && !std::filesystem::exists(path, ignored)) return path;
  }
  return {};
}

// As JSON writes it: what is not finite is null.
std::string_view number_text(double value, std::span<char> room) {
  if (!std::isfinite(value)) return "null";
  const auto end = fmt::format_to_n(room.data(), room.size(), "{}", value);
  return {room.data(), end.size};
}

}  // namespace

RunFolder RunFolder::open(const std::filesystem::path& path, bool resume) {
  std::error_code error;
  const bool exists = std::filesystem::exists(path / "run.json", error);
  if (exists && !resume) throw already_holds_run(path);
  if (!exists && resume) {
    throw config_error("E-RUN-MISSING", path.string(), "there is no run to resume", "the folder of a run",
                       {fmt::format("plimsoll train CONFIG --run {}", path.string())});
  }
  RunFolder folder(path);
  folder.begun_ = exists;
  const std::filesystem::path whole = std::filesystem::absolute(path, error).lexically_normal();
  if (const auto link = dangling_link(whole)) {
    throw cannot_write(path, fmt::format("{} is a link to {}, which is not there", link->string(),
                                         std::filesystem::read_symlink(*link, error).string()));
  }
  folder.create(whole);
  if (!std::filesystem::is_directory(path, error)) throw cannot_write(path, "it is not a folder");
  if (access(path.c_str(), W_OK | X_OK) != 0) throw cannot_write(path, std::strerror(errno));
  folder.lock();
  // Another process may have begun, or ended, a run between the first look and the lock.
  if (!resume && std::filesystem::exists(path / "run.json", error)) {
    folder.begun_ = true;
    throw already_holds_run(path);
  }
  if (resume) remove_partial_files(path);
  return folder;
}

// Remembers what it makes, and nothing else: that alone may be taken away again.
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

// Two runs in one folder would write over each other's lines and files. The lock is on the folder itself, so nothing is left
// behind; it goes with the process, however that ends. Where a file system has no locks, there is none.
void RunFolder::lock() {
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  begun_ = true;  // by the other one: nothing here is ours to remove
  const std::optional<std::int64_t> pid = pid_of(path_ / "run.json");
  throw config_error("E-RUN-BUSY", path_.string(),
                     pid ? fmt::format("process {} is training in it", *pid) : "another process is about to train in it",
                     "a folder that no other process uses", {"--run ANOTHER_FOLDER"});
}

RunFolder::~RunFolder() {
  if (metrics_ >= 0) close(metrics_);
  if (!begun_ && !created_.empty()) abandon();
  if (lock_ >= 0) close(lock_);
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      created_(std::exchange(other.created_, {})),
      begun_(other.begun_),
      metrics_(std::exchange(other.metrics_, -1)),
      lock_(std::exchange(other.lock_, -1)) {}

// Removes a new folder with what lies there because a run was about to begin; if it holds anything else, it stays.
void RunFolder::abandon() const noexcept {
  std::error_code ignored;
  std::filesystem::remove_all(tokens(), ignored);
  for (const char* file : {"weights/vocab.json", "weights/merges.txt", "config.resolved.toml", "plan.json", "metrics.jsonl",
                           "eval.jsonl", "events.jsonl", "weights"}) {
    std::filesystem::remove(path_ / file, ignored);
  }
  for (const std::filesystem::path& folder : created_) std::filesystem::remove(folder, ignored);
}

void RunFolder::write(const std::string& name, const std::string& text) const { write_file_atomically(path_ / name, text); }

void RunFolder::write_run(const nlohmann::json& run) {
  write("run.json", run.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  begun_ = true;
}

namespace {

std::optional<Metrics> metrics_from(const nlohmann::json& object) {
  const auto is_number = [&](const char* key) { return object.contains(key) && object[key].is_number(); };
  if (!is_number("update") || !is_number("loss") || !is_number("grad_norm")) return {};
  Metrics metrics;
  metrics.update = object["update"];
  metrics.loss = object["loss"];
  metrics.grad_norm = object["grad_norm"];
  return metrics;
}

}  // namespace

void RunFolder::open_metrics(std::int64_t updates, const std::function<void(const Metrics&)>& see) {
  const std::filesystem::path path = path_ / kMetrics;
  cut_lines(path, updates, PerUpdate::one);
  for_each_line(path, [&](const nlohmann::json& object) {
    if (const std::optional<Metrics> metrics = metrics_from(object)) see(*metrics);
  });
  metrics_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (metrics_ < 0) throw cannot_write(path, std::strerror(errno));
}

void RunFolder::open_events(std::int64_t updates, const std::function<void(const nlohmann::json&)>& see) const {
  cut_lines(path_ / kEvents, updates, PerUpdate::any);
  for_each_line(path_ / kEvents, see);
}

void RunFolder::append_event(const nlohmann::json& event) const { append_text(path_ / kEvents, event.dump() + "\n"); }

void RunFolder::open_evaluations(std::int64_t updates) {
  cut_lines(path_ / kEvaluations, updates, PerUpdate::one);
  for_each_line(path_ / kEvaluations, [&](const nlohmann::json& object) { evaluated_ = object.value("update", evaluated_); });
}

void RunFolder::append(const Evaluation& evaluation) {
  if (evaluated_ >= evaluation.update) cut_lines(path_ / kEvaluations, evaluation.update - 1, PerUpdate::one);
  std::array<char, 32> loss;
  append_text(path_ / kEvaluations,
              fmt::format("{{\"update\":{},\"samples\":{},\"loss\":{},\"loss_bits\":\"{}\",\"units\":{},\"seconds\":{}}}\n",
                          evaluation.update, evaluation.samples, number_text(evaluation.loss, loss), bits_hex(evaluation.loss),
                          evaluation.units, evaluation.seconds));
  evaluated_ = evaluation.update;
}

void RunFolder::sync() const {
  for (const char* name : {kMetrics, kEvaluations, kEvents}) sync_file(path_ / name);
}

void RunFolder::append(const Metrics& metrics) {
  std::array<char, 32> loss, grad_norm, ratio;
  std::array<char, 640> line;
  char* end = line.data();
  const auto add = [&]<class... A>(fmt::format_string<A...> text, A&&... values) {
    end = fmt::format_to_n(end, static_cast<std::size_t>(line.end() - end), text, std::forward<A>(values)...).out;
  };
  add("{{\"update\":{},\"samples\":{},\"units\":{},", metrics.update, metrics.samples, metrics.units);
  add("\"loss\":{},\"loss_bits\":\"{:016x}\",", number_text(metrics.loss, loss), std::bit_cast<std::uint64_t>(metrics.loss));
  add("\"grad_norm\":{},\"grad_norm_bits\":\"{:016x}\",", number_text(metrics.grad_norm, grad_norm),
      std::bit_cast<std::uint64_t>(metrics.grad_norm));
  add("\"learning_rate\":{},", metrics.learning_rate);
  if (metrics.momentum) add("\"momentum\":{},", *metrics.momentum);
  if (metrics.loss_scale) add("\"loss_scale\":{},", *metrics.loss_scale);
  add("\"update_ratio\":{},", number_text(metrics.update_ratio, ratio));
  if (metrics.underflow) add("\"underflow\":{:.4g},", *metrics.underflow);
  if (metrics.spike) add("\"spike\":true,");
  add("\"seconds\":{},\"tokens_per_second\":{},\"vm_hwm_bytes\":{}}}\n", metrics.seconds,
      metrics.seconds > 0 ? static_cast<double>(metrics.units) / metrics.seconds : 0.0, metrics.vm_hwm.n);
  std::string_view rest(line.data(), end);
  while (!rest.empty()) {
    const ssize_t put = ::write(metrics_, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) throw cannot_write(path_ / kMetrics, put < 0 ? std::strerror(errno) : "the disk is full");
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
}

}  // namespace plimsoll
