#include "records/exports/tensorboard.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "formats/new_folder.h"
#include "records/exports/event_file.h"
#include "records/run_parts.h"

namespace plimsoll {
namespace {

const std::string kTrainLoss = "train/loss", kEvalLoss = "eval/loss";

// The last step of a tag, or 0.
std::int64_t last_step(const EventFile::Times& times) { return times.empty() ? 0 : times.rbegin()->first; }

}  // namespace

// The event file of a part. Lines come in the order of updates, an evaluation after the metrics of its update.
class TensorboardExport::Part {
 public:
  Part(const std::filesystem::path& path, double begun) : file_(path, begun) {}

  void add(const Metrics& metrics) {
    latest_ = metrics;
    if (!needs(kTrainLoss, metrics.update, metrics.time)) return;
    std::vector<Scalar> scalars{
        {kTrainLoss, metrics.loss}, {"train/gradient_norm", metrics.grad_norm}, {"train/learning_rate", metrics.learning_rate}};
    if (!std::isnan(metrics.update_ratio)) scalars.push_back({"train/update_ratio", metrics.update_ratio});
    if (metrics.seconds > 0) scalars.push_back({"perf/tokens_per_second", static_cast<double>(metrics.units) / metrics.seconds});
    if (metrics.wait_seconds) scalars.push_back({"perf/wait_seconds", *metrics.wait_seconds});
    scalars.push_back({"memory/process_bytes", static_cast<double>(metrics.vm_hwm.n)});
    file_.add(metrics.update, metrics.time, scalars);
  }

  void add(const Evaluation& evaluation) {
    const bool had = file_.times(kTrainLoss).contains(evaluation.update);
    if (!needs(kEvalLoss, evaluation.update, evaluation.time)) return;
    // Dropping an earlier evaluation of the update has dropped its metrics, too.
    const bool lost = had && !file_.times(kTrainLoss).contains(evaluation.update);
    if (lost && latest_ && latest_->update == evaluation.update) add(Metrics(*latest_));
    std::vector<Scalar> scalars{{kEvalLoss, evaluation.loss}};
    if (evaluation.accuracy) scalars.push_back({"eval/accuracy", evaluation.accuracy->top1});
    file_.add(evaluation.update, evaluation.time, scalars);
  }

  // No lines follow after this update.
  void end(std::int64_t update, double time) {
    if (std::max(last_step(file_.times(kTrainLoss)), last_step(file_.times(kEvalLoss))) > update) file_.forget(update + 1, time);
  }

  void flush() { file_.flush(); }

 private:
  // False if the file has the line. A step that it has with another time was trained again, and all after it.
  bool needs(const std::string& tag, std::int64_t update, double time) {
    const EventFile::Times& times = file_.times(tag);
    const auto found = times.lower_bound(update);
    if (found == times.end()) return true;
    if (found->first == update && found->second == time) return false;
    file_.forget(update, time);
    return true;
  }

  EventFile file_;
  std::optional<Metrics> latest_;
};

TensorboardExport::TensorboardExport(const Run& run, std::filesystem::path folder)
    : run_(run.path), folder_(std::move(folder)), metrics_(run.path / kMetricsFile), evaluations_(run.path / kEvaluationsFile) {
  const bool plain = !run.id.empty() && run.id.find_first_not_of("0123456789abcdef") == std::string::npos;
  begun_ = run.last ? run.last->time : 0;
  name_ = fmt::format("events.out.tfevents.0.plimsoll-{}", plain ? run.id : "run");
}

TensorboardExport::~TensorboardExport() = default;

TensorboardExport::Part& TensorboardExport::part(int number) {
  const auto index = static_cast<std::size_t>(number) - 1;
  if (parts_.size() <= index) parts_.resize(index + 1);
  if (!parts_[index]) {
    const std::filesystem::path folder = number == 1 ? folder_ : folder_ / std::to_string(number);
    create_folder(folder);
    parts_[index] = std::make_unique<Part>(folder / name_, begun_);
  }
  return *parts_[index];
}

void TensorboardExport::update() {
  const std::vector<RunPart> parts = parts_of_run(run_);
  bool again = std::exchange(known_parts_, parts.size()) != parts.size();
  std::vector<Metrics> metrics;
  std::vector<Evaluation> evaluations;
  const auto restart = [&] {
    again = true;
    metrics.clear();
    evaluations.clear();
  };
  metrics_.poll(
      [&](std::string_view line) {
        const std::optional<Metrics> value = again ? std::nullopt : metrics_of_line(line);
        if (value) metrics.push_back(*value);
      },
      restart);
  evaluations_.poll(
      [&](std::string_view line) {
        const std::optional<Evaluation> value = again ? std::nullopt : evaluation_of_line(line);
        if (value) evaluations.push_back(*value);
      },
      restart);
  if (again) return add_all();
  Part& present = part(parts.back().number);
  auto next = evaluations.begin();
  const auto evaluate_until = [&](std::int64_t update) {
    for (; next != evaluations.end() && next->update < update; ++next) {
      if (next->update > parts.back().after) present.add(*next);
    }
  };
  for (const Metrics& each : metrics) {
    if (each.update <= parts.back().after) continue;
    evaluate_until(each.update);
    present.add(each);
  }
  evaluate_until(std::numeric_limits<std::int64_t>::max());
  present.flush();
}

void TensorboardExport::add_all() {
  for (const RunPart& lines : parts_of_run(run_)) {
    Part& to = part(lines.number);
    std::vector<Evaluation> evaluations;
    lines.evaluations([&](const Evaluation& each) { evaluations.push_back(each); });
    auto next = evaluations.begin();
    const auto evaluate_until = [&](std::int64_t update) {
      for (; next != evaluations.end() && next->update < update; ++next) to.add(*next);
    };
    std::int64_t last = lines.after;
    double time = begun_;
    lines.metrics([&](const Metrics& each) {
      evaluate_until(each.update);
      to.add(each);
      last = each.update, time = each.time;
    });
    evaluate_until(std::numeric_limits<std::int64_t>::max());
    if (!evaluations.empty()) last = std::max(last, evaluations.back().update);
    to.end(last, time);
    to.flush();
  }
}

}  // namespace plimsoll
