// Plans of a graph without repeated pieces, with long skips, on the simulated machine. For scripts/compare_plans.
//   bench_skip_plans COUNT | memory=BYTES,BYTES,... disk=... device=...      budgets from the floor to the ceiling, or these
#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "measure/simulated_machine.h"
#include "plan/plan.h"
#include "plan/search/space.h"
#include "prepare/planning.h"
#include "tests/run/random_graph.h"

using namespace plimsoll;

namespace {

constexpr std::int64_t kEffective = 4;
constexpr int kPoints = 16;
constexpr SkipShape kShape{256, 512, 256, 6};

// Rooms past the device: host, disk.
const std::map<std::string, std::vector<Bytes>> kTiers{{"memory", {}}, {"disk", {Bytes{0}, kGiB * 64}}, {"device", {kGiB * 64}}};

nlohmann::json plans(const std::vector<Bytes>& beyond, std::vector<Bytes> budgets, int count) {
  const MachineRecord record = simulated_machine(2);
  OpCatalogue catalogue = catalogue_of(record);
  PlanRequest request;
  request.effective_batch = kEffective;
  request.units_per_sample = kShape.context;
  request.beyond = beyond;
  PlanSpace space([](std::int64_t micro) { return skip_network(micro, kShape).graph; }, request, record.machine, catalogue);
  const Bytes floor = space.floor(), ceiling = space.ceiling();
  for (int i = 0; i < count; ++i) budgets.push_back(floor + Bytes{(ceiling - floor).n * i / std::max(1, count - 1)});
  const std::vector<FrontierPoint> frontier = space.frontier(kPoints, budgets);
  nlohmann::json rows = nlohmann::json::array();
  for (const Bytes budget : budgets) {
    const auto point = std::find_if(frontier.rbegin(), frontier.rend(), [&](const auto& one) { return one.process <= budget; });
    if (point == frontier.rend()) {
      rows.push_back({budget.n, nullptr, nullptr, nullptr, nullptr});
    } else {
      rows.push_back({budget.n, point->arena.n, point->live.n, point->update_seconds, point->decisions.micro_batch});
    }
  }
  return {{"floor", floor.n}, {"bound", space.floor_bound().n}, {"ceiling", ceiling.n}, {"plans", rows}};
}

}  // namespace

int main(int argc, char** argv) {
  nlohmann::json result = nlohmann::json::object();
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos) {
      for (const auto& [name, beyond] : kTiers) result[name] = plans(beyond, {}, std::stoi(argv[i]));
      continue;
    }
    std::vector<Bytes> budgets;
    for (const char *at = word.data() + equals, *end = word.data() + word.size(); at < end;) {
      budgets.emplace_back();
      const auto read = std::from_chars(at + 1, end, budgets.back().n);
      ensure(read.ec == std::errc{}, "bench", "budgets are bytes, with commas between them");
      at = read.ptr;
    }
    const std::string name(word.substr(0, equals));
    result[name] = plans(kTiers.at(name), std::move(budgets), 0);
  }
  fmt::print("{}\n", result.dump());
  return 0;
}
