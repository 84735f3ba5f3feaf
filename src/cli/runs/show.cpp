#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/runs/run_facts.h"
#include "cli/say.h"
#include "cli/shown_text.h"
#include "records/best_weights.h"
#include "records/checkpoints.h"
#include "records/compare_runs.h"
#include "records/noise_scale.h"

namespace plimsoll {
namespace {

using nlohmann::json;

class Sheet {
 public:
  void add(const char* name, const std::string& text) {
    if (!text.empty()) text_ += fmt::format("{:<12} {}\n", name, shown_text(text, ShownAs::line));
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string of_bytes(const std::optional<Bytes>& bytes) { return bytes ? to_text(*bytes) : "-"; }

std::string segment_text(const RunSegment& segment) {
  std::string text =
      fmt::format("{} on {}, updates {} to {}", segment.begun, segment.host, segment.from_update, segment.last_update);
  if (!segment.code.empty()) text += ": " + segment.code;
  return text;
}

std::string data_text(const RunData& data) {
  std::vector<std::string> parts{fmt::format("{}", fmt::join(data.files, ", "))};
  if (data.samples) parts.push_back(grouped(*data.samples) + " samples");
  if (data.tokens) parts.push_back(grouped(*data.tokens) + " tokens");
  if (data.trained && data.trained != data.tokens) parts.push_back(grouped(*data.trained) + " trained");
  if (data.fill) parts.push_back(fmt::format("rows filled to {:.1f} %", 100 * *data.fill));
  return parts.size() == 1 && parts.front().empty() ? "" : fmt::format("{}", fmt::join(parts, "; "));
}

std::string left_out_text(const LeftOut& left_out, const char* file) {
  if (left_out.broken + left_out.out_of_order == 0) return "";
  return fmt::format("{}: {} lines that cannot be read and {} out of order are left out", file, left_out.broken,
                     left_out.out_of_order);
}

// Empty for a run without measurements.
std::string noise_sheet(const std::filesystem::path& folder) {
  const RunNoise noise = noise_of_run(folder);
  if (noise.windows.empty()) return "";
  std::vector<std::string> thirds;
  for (const auto& third : noise.thirds) thirds.push_back(noise_text(noise_scale(third)));
  return fmt::format("{} in all; in thirds: {}; {}", noise_text(noise_scale(noise.windows)), fmt::join(thirds, ", "),
                     kNoiseAdvice);
}

std::string sheet_of(const ListedRun& listed) {
  const Run& run = listed.run;
  Sheet sheet;
  sheet.add("run", run.path.string());
  sheet.add("id", run.id);
  sheet.add("state",
            run.error_code.empty() ? state_text(run) : fmt::format("{}: {} {}", run.status, run.error_code, run.error_message));
  sheet.add("note", listed.note);
  if (run.parent) sheet.add("fork of", fmt::format("{}, update {}", run.parent->first, run.parent->second));
  for (const RunSegment& segment : run.segments)
    sheet.add(&segment == &run.segments.front() ? "begun" : "resumed", segment_text(segment));
  sheet.add("progress",
            fmt::format("{} updates, {} samples, {}", grouped(run.updates), grouped(run.samples), duration_text(run.seconds)));
  if (run.loss) sheet.add("loss", loss_text(run.loss));
  if (run.best) sheet.add("best", best_summary(*run.best));
  if (run.validation_loss) sheet.add("validation", loss_text(run.validation_loss));
  const RunSpeed speed = speed_of(run.path);
  if (speed.trained) {
    sheet.add("speed",
              trained_rate_text(*speed.trained, speed.all.value_or(0)) +
                  (speed.wait_share ? fmt::format("; waits for data {:.1f} % of the time", 100 * *speed.wait_share) : ""));
  }
  sheet.add("noise scale", noise_sheet(run.path));
  sheet.add("batch", fmt::format("{} = {} x {}{}", run.effective_batch, run.micro_batch, run.accumulation,
                                 run.ranks > 1 ? fmt::format(" x {} ranks", run.ranks) : ""));
  sheet.add("memory", fmt::format("process {} (planned {}, budget {}), arena {} (planned {})", of_bytes(run.measured.process),
                                  of_bytes(run.predicted.process), of_bytes(run.memory), of_bytes(run.measured.arena),
                                  of_bytes(run.predicted.arena)));
  sheet.add("data", data_text(run.data));
  const RunEnvironment& machine = run.environment;
  sheet.add("machine", fmt::format("{}{}{} threads, {}", machine.processor, machine.processor.empty() ? "" : ", ",
                                   machine.threads, machine.instruction_set));
  if (!machine.version.empty()) {
    sheet.add("program", fmt::format("{}{}{}; {}; {}", machine.version, machine.commit.empty() ? "" : ", ", machine.commit,
                                     fmt::join(machine.libraries, ", "), machine.system));
  }
  std::vector<std::int64_t> kept;
  for (const KeptCheckpoint& each : checkpoints_in(run.path)) kept.push_back(each.update);
  if (!kept.empty()) sheet.add("checkpoints", fmt::format("of the updates {}", fmt::join(kept, ", ")));
  sheet.add("note", left_out_text(read_metrics(run.path, [](const Metrics&) {}), kMetricsFile));
  sheet.add("note", left_out_text(read_evaluations(run.path, [](const Evaluation&) {}), kEvaluationsFile));
  return sheet.text();
}

}  // namespace

int run_runs_show(const RunsShowArguments& arguments) {
  open_run_records(arguments.run);
  const ListedRun listed = listed_run(arguments.run);
  if (!arguments.json) {
    print_text(sheet_of(listed));
    return 0;
  }
  json object = run_json(listed);
  object["run"] = run_object(arguments.run);
  object["settings"] = listed.settings;
  const RunNoise noise = noise_of_run(arguments.run);
  object["noise_scale"] = to_json(noise_scale(noise.windows));
  object["noise_scale_thirds"] = json::array();
  for (const auto& third : noise.thirds) object["noise_scale_thirds"].push_back(to_json(noise_scale(third)));
  object["checkpoints"] = json::array();
  for (const KeptCheckpoint& each : checkpoints_in(arguments.run)) object["checkpoints"].push_back(each.update);
  print_json(json{{"schema", "plimsoll.runs/1"}, {"runs", json::array({object})}});
  return 0;
}

}  // namespace plimsoll
