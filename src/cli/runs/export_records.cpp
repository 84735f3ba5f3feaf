#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/runs/follow.h"
#include "cli/say.h"
#include "records/exports/csv.h"
#include "records/exports/tensorboard.h"
#include "records/run_parts.h"

namespace plimsoll {
namespace {

constexpr double kLook = 0.5;  // seconds between two looks at a run

// Writes whole files, so the pause between two of them grows with the time that they take.
class CsvExport {
 public:
  CsvExport(std::filesystem::path run, std::filesystem::path folder) : run_(std::move(run)), folder_(std::move(folder)) {}

  void update(const Run& run) {
    constexpr double kShare = 0.05;  // of the time is spent writing
    const bool ended = run.status != "running";
    const bool same = written_ && run.updates == updates_ && run.status == status_;
    if (same || (!ended && written_ && seconds_now() < next_)) return;
    const double start = seconds_now();
    export_csv(run_, folder_);
    written_ = true, updates_ = run.updates, status_ = run.status;
    next_ = seconds_now() + (seconds_now() - start) / kShare;
  }

 private:
  std::filesystem::path run_, folder_;
  bool written_ = false;
  std::int64_t updates_ = 0;
  std::string status_;
  double next_ = 0;
};

}  // namespace

int export_records(const ExportArguments& arguments) {
  const bool csv = !arguments.csv.empty();
  const std::filesystem::path folder = csv ? arguments.csv : arguments.tensorboard;
  CsvExport tables(arguments.run, folder);
  std::optional<TensorboardExport> events;
  const auto update = [&](const Run& run) {
    if (csv) return tables.update(run);
    if (!events) events.emplace(run, folder);
    events->update();
  };
  Run run;
  if (arguments.follow) {
    run = follow_run(arguments.run, kLook, update);
  } else {
    run = open_run_records(arguments.run);
    update(run);
  }
  const std::size_t parts = parts_of_run(run.path).size();
  if (arguments.json) {
    print_json(nlohmann::json{{"schema", "plimsoll.export/1"},
                              {"kind", csv ? "csv" : "tensorboard"},
                              {"run", arguments.run},
                              {"folder", folder.string()},
                              {"updates", run.updates},
                              {"parts", parts}});
    return 0;
  }
  print_text(fmt::format(
      "wrote {}: {} updates{}\n", folder.string(), run.updates,
      parts > 1 ? fmt::format("; the run went back {} times, its later parts are in {}/2 and on", parts - 1, folder.string())
                : ""));
  return 0;
}

}  // namespace plimsoll
