#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/plan/instance_file.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "formats/atomic_file.h"
#include "formats/file.h"
#include "plan/regions/problem_chain.h"
#include "plan/replays/ladder.h"

namespace plimsoll {
namespace {

// The default limit of work on all levels of bytes together: a few seconds. The time of a schedule grows with up to the square of
// the ops.
replays::Work usual_work(const replays::Problem& problem) {
  constexpr std::size_t kAtOnce = 4000000000, kFewest = 4, kMost = 20000;
  constexpr std::int64_t kMostLooks = 20000000000;
  return {static_cast<int>(std::clamp(kAtOnce / (problem.ops.size() * problem.ops.size()), kFewest, kMost)), kMostLooks};
}

// A unit of work is one schedule and a million visited items. A schedule that exceeds the remaining work ends early.
replays::Work limited_work(std::int64_t units) {
  constexpr std::int64_t kLooks = 1000000;
  return {static_cast<int>(units), units * kLooks};
}

}  // namespace

int run_recompute(const RecomputeArguments& arguments) {
  constexpr int kLocal = 8;  // number of regions in a stretch of single decisions
  const std::filesystem::path out = output_file(arguments.out);
  const std::int64_t budget = parse_bytes(arguments.memory, "--memory").n;
  const replays::Instance instance =
      replays::read_instance(read_text(arguments.file, replays::kMostInstanceBytes, "E-INSTANCE"), arguments.file);
  const replays::Problem& problem = instance.problem;
  const double start = cpu_seconds_now();
  const std::optional<replays::Outcome> keep = replays::evaluate(problem, {});
  if (!keep) throw internal_error("recompute", "a checked order does not run");
  const std::int64_t bytes = budget - instance.always;
  std::optional<replays::Schedule> found =
      replays::schedule_within(problem, *keep, bytes, arguments.work ? limited_work(*arguments.work) : usual_work(problem));
  // The chain of regions takes little time and has no limit.
  const std::optional<replays::Schedule> chained = regions::ProblemChain(problem, {.local = kLocal}).fastest_within(bytes);
  if (chained && (!found || chained->seconds < found->seconds)) found = chained;
  const double seconds = cpu_seconds_now() - start;
  std::optional<replays::Outcome> outcome;
  if (found) outcome = replays::evaluate(problem, found->replays);
  if (found && (!outcome || outcome->peak > budget - instance.always)) {
    throw internal_error("recompute", "the judge refuses the schedule");
  }
  const double kept_seconds = instance.update_seconds(keep->seconds);
  nlohmann::json rows = nlohmann::json::array();
  if (found) {
    for (const replays::Replay& replay : found->replays) {
      rows.push_back(
          {instance.nodes[static_cast<std::size_t>(replay.op)], instance.nodes[static_cast<std::size_t>(replay.before)]});
    }
  }
  const double update_seconds = outcome ? instance.update_seconds(outcome->seconds) : 0;
  const double overhead = kept_seconds > 0 ? update_seconds / kept_seconds - 1 : 0;
  const nlohmann::json object = {
      {"schema", "plimsoll.recompute/1"},
      {"status", found ? "fits" : "unknown"},
      {"budget_bytes", budget},
      {"live_bytes", outcome ? nlohmann::json(outcome->peak + instance.always) : nlohmann::json(nullptr)},
      {"update_seconds", outcome ? nlohmann::json(update_seconds) : nlohmann::json(nullptr)},
      {"keep_everything", {{"live_bytes", keep->peak + instance.always}, {"update_seconds", kept_seconds}}},
      {"always_bytes", instance.always},
      {"overhead", outcome ? nlohmann::json(overhead) : nlohmann::json(nullptr)},
      {"replays", rows},
      {"cpu_seconds", seconds}};
  if (!out.empty() && found) write_file_atomically(out, object.dump(1) + "\n");
  if (arguments.json) {
    print_json(object);
  } else if (found) {
    print_text(fmt::format(
        "fits: {} of {}; update {}, {:+.2f} % over keeping everything, which takes {} and {}; {} nodes run again ({:.1f} CPU "
        "seconds)\n",
        to_text(Bytes{outcome->peak + instance.always}), to_text(Bytes{budget}), duration_text(update_seconds), 100 * overhead,
        to_text(Bytes{keep->peak + instance.always}), duration_text(kept_seconds), rows.size(), seconds));
  } else {
    print_text(fmt::format("no schedule found in {}; {} live always, keeping everything takes {}\n", to_text(Bytes{budget}),
                           to_text(Bytes{instance.always}), to_text(Bytes{keep->peak + instance.always})));
  }
  return static_cast<int>(found ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace plimsoll
