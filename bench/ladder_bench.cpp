// The ladder of a configuration on the simulated machine, before layout: bytes of values and seconds of an update
// for each rung; and the time of planning. For scripts/compare_ladders.
//   bench_ladder CONFIG memory|disk|device [SETTING...]
#include <fmt/core.h>

#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/config_keys.h"
#include "measure/simulated_machine.h"
#include "plan/plan.h"
#include "plan/search/space.h"
#include "prepare/planning.h"
#include "prepare/requests.h"
#include "settings/setting.h"

using namespace plimsoll;

namespace {

// Rooms past the first tier: host, disk.
const std::map<std::string, std::vector<Bytes>> kTiers{{"memory", {}}, {"disk", {Bytes{0}, kGiB * 64}}, {"device", {kGiB * 64}}};

}  // namespace

int main(int argc, char** argv) {
  ensure(argc >= 3 && kTiers.contains(argv[2]), "bench", "bench_ladder CONFIG memory|disk|device [SETTING...]");
  keep_freed_memory();
  Changes changes;
  for (int i = 3; i < argc; ++i) changes.push_back(read_change(argv[i]));
  const Config config = load_config(argv[1], typed_settings(changes));
  const MachineRecord record = simulated_machine(2);
  OpCatalogue catalogue = catalogue_of(record);
  PlanRequest request = plan_request(config);
  request.beyond = kTiers.at(argv[2]);
  const std::clock_t start = std::clock();
  const PlanSpace space(source_of(config, {.row = {RowBytes::of_stream(2)}}), request, record.machine, catalogue);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  nlohmann::json rungs = nlohmann::json::array();
  for (const Candidate& rung : space.ladder()) rungs.push_back({rung.values().n, rung.update_seconds});
  const PlanningEffort effort = space.effort();
  const nlohmann::json result = {{"cpu_seconds", seconds},
                                 {"combinations", effort.combinations},
                                 {"simulations", effort.simulations},
                                 {"labels", effort.labels},
                                 {"ladder", rungs}};
  fmt::print("{}\n", result.dump());
  return 0;
}
