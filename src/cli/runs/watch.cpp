#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/runs/follow.h"
#include "cli/runs/run_facts.h"
#include "cli/say.h"
#include "cli/shown_text.h"
#include "formats/bounded_json.h"
#include "records/best_weights.h"

namespace plimsoll {
namespace {

constexpr double kLook = 0.2;  // seconds between two looks at the run

// The planned length of a run.
struct Length {
  RemainingTime remaining;
  std::string rate;  // the unit of speeds, for data without tokens
};

// From the run's plan.json, as far as it has these numbers.
Length length_of(const std::filesystem::path& folder) {
  constexpr JsonLimits kPlanLimits{.bytes = 64 << 20, .values = 4'000'000, .depth = 32};
  Length length;
  try {
    const nlohmann::json plan = read_json_object(folder / "plan.json", kPlanLimits, "E-IO-READ");
    if (plan.contains("words")) length.rate = shown_text(plan.at("words").at("rate").get<std::string>(), ShownAs::line);
    const nlohmann::json& run = plan.at("run");
    RemainingTime& remaining = length.remaining;
    remaining.updates = run.at("updates").get<std::int64_t>();
    const auto evaluations = run.at("evaluations").get<std::int64_t>();
    remaining.evaluates = evaluations > 0;
    if (evaluations > 1) remaining.evaluate_every = remaining.updates / evaluations;
    take_times(remaining, plan);
  } catch (const std::exception&) {  // then the line has no time that remains
  }
  return length;
}

class Watcher {
 public:
  explicit Watcher(const std::filesystem::path& folder)
      : folder_(folder), metrics_(folder / kMetricsFile), evaluations_(folder / kEvaluationsFile) {}

  void look(const Run& run) {
    if (run.status != std::exchange(status_, run.status) || !line_) tell(run);
    std::vector<Metrics> fresh;
    metrics_.poll([&](std::string_view line) { keep(line, fresh); }, [&] { begun_ = false; });
    for (const Metrics& metrics : fresh) line_->show(metrics);
    evaluations_.poll(
        [&](std::string_view line) {
          if (const auto evaluation = begun_ ? evaluation_of_line(line) : std::nullopt) {
            line_->say(fmt::format("update {}  validation loss {:.4f} nats over {} units{}", evaluation->update, evaluation->loss,
                                   evaluation->units, accuracy_text(evaluation->accuracy)));
          }
        },
        [&] { begun_ = false; });
    begun_ = true;
  }

  // Ends the live line.
  void close() { line_.reset(); }

 private:
  // The first look shows only the last line that is there.
  void keep(std::string_view line, std::vector<Metrics>& fresh) const {
    const std::optional<Metrics> metrics = metrics_of_line(line);
    if (!metrics) return;
    if (!begun_) fresh.clear();
    fresh.push_back(*metrics);
  }

  void tell(const Run& run) {
    const Length length = length_of(folder_);
    if (!line_ || run.status == "running") {
      line_.reset();
      line_.emplace(length.remaining, run.memory.value_or(run.predicted.process.value_or(Bytes{})), length.rate);
    }
    if (run.status == "running")
      line_->say(fmt::format("process {} trains in {}", run.pid, shown_text(folder_.string(), ShownAs::line)));
    if (run.status == "interrupted") {
      line_->say(fmt::format("the run is interrupted at update {}; this goes on with its resume (Ctrl-C ends it)", run.updates));
    }
  }

  std::filesystem::path folder_;
  LineFollower metrics_, evaluations_;
  std::string status_;
  std::optional<ProgressLine> line_;
  bool begun_ = false;
};

}  // namespace

int run_watch(const WatchArguments& arguments) {
  Watcher watcher(arguments.run);
  const Run run = follow_run(arguments.run, kLook, [&](const Run& now) { watcher.look(now); });
  watcher.close();
  std::string text =
      fmt::format("{}: {} updates in {}, loss {}", run.status, run.updates, duration_text(run.seconds), loss_text(run.loss));
  if (run.validation_loss) text += fmt::format(", validation {}", loss_text(run.validation_loss));
  say_line(text);
  if (run.best) say_line(fmt::format("best: {}", best_summary(*run.best)));
  if (run.status == "failed") say_line(shown_text(fmt::format("{}: {}", run.error_code, run.error_message), ShownAs::line));
  const std::int64_t code = run.exit_code.value_or(0);
  return run.status == "failed" ? static_cast<int>(code > 0 && code < 128 ? code : 1) : 0;
}

}  // namespace plimsoll
