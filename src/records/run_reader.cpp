#include "records/run_reader.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>
#include <type_traits>
#include <variant>

#include "base/error.h"
#include "data/sample_counts.h"
#include "formats/bounded_json.h"
#include "formats/file.h"
#include "settings/setting.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::size_t kMostItems = 4096;  // of a list in run.json

// A JSON object of unknown form. Members that are absent, or of another kind, are empty.
class Object {
 public:
  explicit Object(const json& value) : value_(value.is_object() ? value : kNone) {}

  std::string text(const char* key) const {
    const json* found = find(key);
    return found != nullptr && found->is_string() ? found->get<std::string>() : std::string();
  }
  std::optional<std::int64_t> whole(const char* key) const {
    const json* found = find(key);
    if (found == nullptr || !found->is_number_integer()) return {};
    if (found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX) return {};
    return found->get<std::int64_t>();
  }
  std::int64_t count(const char* key) const { return std::max<std::int64_t>(0, whole(key).value_or(0)); }
  std::optional<double> number(const char* key) const {
    const json* found = find(key);
    return found != nullptr && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
  }
  std::optional<Bytes> bytes(const char* key) const {
    const std::optional<std::int64_t> n = whole(key);
    return n && *n >= 0 ? std::optional(Bytes{*n}) : std::nullopt;
  }
  std::vector<std::string> texts(const char* key) const {
    std::vector<std::string> all;
    for (const json& each : list(key)) {
      if (each.is_string()) all.push_back(each.get<std::string>());
    }
    return all;
  }
  Object object(const char* key) const {
    const json* found = find(key);
    return Object(found != nullptr ? *found : kNone);
  }
  // At most kMostItems, the last ones.
  std::vector<json> list(const char* key) const {
    const json* found = find(key);
    if (found == nullptr || !found->is_array()) return {};
    const std::size_t count = std::min(found->size(), kMostItems);
    return {found->end() - static_cast<std::ptrdiff_t>(count), found->end()};
  }
  const json& all() const { return value_; }

 private:
  static const json kNone;

  const json* find(const char* key) const {
    const auto found = value_.find(key);
    return found != value_.end() ? &*found : nullptr;
  }

  const json& value_;
};

const json Object::kNone = json::object();

// UTC seconds of "2026-01-31T12:00:00Z"; 0 for another text.
double seconds_of(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return end != nullptr && *end == '\0' ? static_cast<double>(::timegm(&parts)) : 0;
}

RunSegment segment_of(const json& value) {
  const Object object(value);
  RunSegment segment;
  segment.begun = object.text("begun"), segment.ended = object.text("ended");
  segment.host = object.text("host"), segment.code = object.text("code");
  segment.config_hash = object.text("config_hash"), segment.plan_hash = object.text("plan_hash");
  segment.instruction_set = object.text("instruction_set");
  segment.pid = object.count("pid"), segment.threads = object.count("threads");
  segment.from_update = object.count("from_update"), segment.last_update = object.count("last_update");
  segment.exit_code = object.whole("exit_code");
  segment.budget = object.bytes("budget");
  return segment;
}

RunEnvironment environment_of(const Object& run) {
  const Object object = run.object("environment");
  RunEnvironment environment;
  environment.version = object.text("version"), environment.commit = object.text("commit");
  environment.system = object.text("system"), environment.processor = object.text("processor");
  environment.libraries = run.texts("libraries");
  environment.instruction_set = run.text("instruction_set");
  environment.threads = run.count("threads");
  return environment;
}

RunData data_of(const Object& run) {
  const Object object = run.object("data");
  RunData data;
  data.files = object.texts("files"), data.validation_files = object.texts("validation_files");
  data.hash = run.text("data_hash"), data.validation_hash = run.text("validation_hash");
  data.samples = object.whole("samples"), data.tokens = object.whole("tokens"), data.trained = object.whole("trained");
  data.fill = object.number("fill");
  // Runs of earlier versions have the counts here.
  const Object counts = object.all().contains("counts") ? object.object("counts") : object;
  for (const auto& [name, member] : kSampleCounts) {
    if (const auto count = counts.whole(name)) data.counts.emplace_back(name, *count);
  }
  return data;
}

RunBytes bytes_of(const Object& object, const char* process) {
  return {object.bytes(process), object.bytes("arena_bytes"), object.bytes("live_bytes")};
}

std::optional<Evaluation> best_in(const Object& run) {
  const Object object = run.object("best");
  const auto update = object.whole("update");
  const auto loss = object.number("loss");
  if (!update || !loss) return {};
  Evaluation best;
  best.update = *update, best.loss = *loss;
  best.samples = object.count("samples"), best.units = object.count("units");
  if (const auto top1 = object.number("accuracy"), top5 = object.number("accuracy_top5"); top1 && top5) {
    best.accuracy = {*top1, *top5};
  }
  return best;
}

// The best evaluation of a run that has not recorded its end. Evaluations of another size begin anew.
std::optional<Evaluation> best_so_far(const fs::path& folder) {
  std::optional<Evaluation> lowest, highest, last;
  read_evaluations(folder, [&](const Evaluation& each) {
    if (last && last->units != each.units) lowest = highest = {};
    last = each;
    if (!lowest || each.loss < lowest->loss) lowest = each;
    if (each.accuracy && (!highest || each.accuracy->top1 > highest->accuracy->top1)) highest = each;
  });
  if (!highest) return lowest;
  const auto settings = settings_of_run(folder);
  const auto metric = settings.find("stop.metric");
  return metric != settings.end() && metric->second.find("accuracy") != std::string::npos ? highest : lowest;
}

// run.json of a killed or live run is as it was written at its last start: its progress is in the lines.
void take_progress(Run& run) {
  run.best = best_so_far(run.path);
  if (!run.last) return;
  run.updates = run.last->update, run.samples = run.last->samples;
  run.loss = run.last->loss;
  const double begun = run.segments.empty() ? 0 : seconds_of(run.segments.back().begun);
  if (begun > 0 && run.last->time > begun) run.seconds += run.last->time - begun;
  if (run.last->vm_hwm.n > 0) run.measured.process = run.last->vm_hwm;
}

// The value as JSON; a value of another kind as written.
std::string value_text(const Setting& setting) {
  const auto text = [](const auto& value) { return json(value).dump(-1, ' ', false, json::error_handler_t::replace); };
  return std::visit(
      [&](const auto& value) -> std::string {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, OtherValue>) {
          return setting.text;
        } else {
          return text(value);
        }
      },
      setting.value);
}

bool lives(std::int64_t pid) { return pid > 0 && (::kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM); }

}  // namespace

bool is_held(const fs::path& folder, std::int64_t pid) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return lives(pid);
  const bool taken = ::flock(fd, LOCK_SH | LOCK_NB) == 0;
  const bool other = !taken && errno == EWOULDBLOCK;
  ::close(fd);
  return other || (!taken && lives(pid));  // a file system without locks
}

json run_object(const fs::path& folder) {
  try {
    return read_json_object(folder / kRunFile, JsonLimits{}, "E-IO-READ");
  } catch (const std::exception&) {
    return json::object();
  }
}

Run read_run(const fs::path& folder) {
  Run run;
  run.path = folder;
  std::error_code ignored;
  fs::path whole = fs::absolute(folder, ignored).lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  run.name = whole.filename().string();
  json object = run_object(folder);
  // A process that ends writes its run.json and then gives up the folder: without a process it is read again.
  const auto left = [&] { return Object(object).text("status") == "running" && !is_held(folder, Object(object).count("pid")); };
  if (left()) object = run_object(folder);
  const Object facts(object);
  const std::string written = facts.text("status");
  run.pid = facts.count("pid");
  run.status = left() ? "interrupted" : written;
  run.id = facts.text("id");
  run.exit_code = facts.whole("exit_code");
  run.error_code = facts.object("error").text("code"), run.error_message = facts.object("error").text("message");
  run.stopped = facts.text("stopped"), run.command = facts.text("command"), run.fault = facts.text("fault");
  run.seed = facts.whole("seed").value_or(0);
  run.config_hash = facts.text("config_hash"), run.plan_hash = facts.text("plan_hash");
  run.graph_hash = facts.text("graph_hash"), run.machine_hash = facts.text("machine_hash");
  run.environment = environment_of(facts);
  run.data = data_of(facts);
  const Object batch = facts.object("batch"), budget = facts.object("budget"), final = facts.object("final");
  run.effective_batch = batch.count("effective"), run.micro_batch = batch.count("micro");
  run.accumulation = batch.count("accumulation"), run.units_per_update = batch.count("units_per_update");
  run.ranks = std::max<std::int64_t>(1, std::ssize(facts.list("ranks")));
  run.memory = budget.bytes("memory"), run.host_memory = budget.bytes("host_memory"), run.disk = budget.bytes("disk");
  run.predicted = bytes_of(facts.object("predicted"), "process_bytes");
  run.measured = bytes_of(facts.object("measured"), "process_hwm_bytes");
  run.grown_after_warmup = facts.object("measured").bytes("grown_after_warmup_bytes");
  run.updates = facts.count("updates"), run.samples = facts.count("samples"), run.units = facts.count("units");
  run.seconds = facts.number("seconds").value_or(0);
  run.loss = final.number("loss"), run.validation_loss = final.number("validation_loss");
  run.accuracy = final.number("accuracy"), run.parameters_hash = final.text("parameters_xxh128");
  run.best = best_in(facts);
  const Object parent = facts.object("parent");
  if (const std::string from = parent.text("run"); !from.empty()) run.parent = {from, parent.count("update")};
  for (const json& each : facts.list("segments")) run.segments.push_back(segment_of(each));
  if (run.status.empty()) return run;
  run.last = last_metrics(folder);
  if (written == "running") take_progress(run);
  return run;
}

Run open_run_records(const fs::path& folder) {
  Run run = read_run(folder);
  if (!run.status.empty()) return run;
  const bool there = is_there(folder / kRunFile);
  throw config_error("E-RUN-MISSING", folder.string(), there ? "its run.json cannot be read" : "there is no run",
                     "the folder of a run", {Remedy::of_command("runs ls")});
}

std::string run_status(const fs::path& folder) { return read_run(folder).status; }

bool run_stopped(const fs::path& folder) { return !read_run(folder).stopped.empty(); }

bool run_diverged(const fs::path& folder) { return read_run(folder).exit_code == static_cast<std::int64_t>(ExitCode::diverged); }

std::vector<fs::path> find_runs(const fs::path& folder, int levels) {
  std::error_code error;
  if (is_there(folder / kRunFile)) return {folder};
  std::vector<fs::path> inner, found;
  for (fs::directory_iterator entry(folder, fs::directory_options::skip_permission_denied, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (levels > 0 && entry->symlink_status(ignored).type() == fs::file_type::directory) inner.push_back(entry->path());
  }
  std::ranges::sort(inner);
  for (const fs::path& each : inner) {
    for (fs::path& run : find_runs(each, levels - 1)) found.push_back(std::move(run));
  }
  return found;
}

std::map<std::string, std::string> settings_of_run(const fs::path& folder) {
  std::map<std::string, std::string> all;
  try {
    for (const Setting& setting : read_settings(folder / "config.resolved.toml")) all[setting.name] = value_text(setting);
  } catch (const std::exception&) {
    all.clear();
  }
  return all;
}

}  // namespace plimsoll
