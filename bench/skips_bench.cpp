// Predicted against measured update times of a graph in which nothing repeats: layers down, as many up again, each of which also
// reads what its partner on the way down made. At budgets from the floor to the ceiling, as bench/predicted_time.py for models
// that a configuration describes.
//   skips_bench [BUDGETS] [UPDATES] [ROUNDS] [FOLDER]      with a folder, plans may use a disk there
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>

#include "base/clock.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "tests/run/network_run.h"
#include "train/calibrate.h"
#include "train/measure_disk.h"
#include "train/measure_step.h"

using namespace plimsoll;

namespace {

constexpr std::int64_t kEffective = 4;
constexpr SkipShape kShape{256, 2048, 768, 6};
constexpr double kBusy = 0.1;  // of the machine, by other processes
constexpr Bytes kDisk{8LL << 30};

struct Case {
  Plan plan;
  Bytes budget;
  double seconds = 1e30;  // the least of the medians of its runs
  std::string hash;
};

// One run of a plan: the first update warms up.
void measure(Case& one, const std::filesystem::path& folder, int updates, int& rejected) {
  const RandomNetwork network = skip_network(one.plan.decisions.micro_batch, kShape);
  NetworkRun run(network, one.plan, kEffective, folder);
  run.load();
  run.update();
  std::vector<double> seconds;
  for (int i = 0; i < updates; ++i) {
    const Contention contention;
    const double start = seconds_now();
    run.update();
    const double took = seconds_now() - start;
    if (contention.others() > kBusy) {
      ++rejected;
    } else {
      seconds.push_back(took);
    }
  }
  if (!seconds.empty()) one.seconds = std::min(one.seconds, median(seconds));
  one.hash = run.hash_parameters();
}

}  // namespace

int main(int argc, char** argv) {
  const int budgets = argc > 1 ? std::atoi(argv[1]) : 20, updates = argc > 2 ? std::atoi(argv[2]) : 5;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 2;
  const std::filesystem::path folder = argc > 4 ? argv[4] : "";
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const auto say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const std::filesystem::path cache = "/tmp/plimsoll-bench-cache";
  std::filesystem::remove_all(cache);  // what machine and disk give is measured in this run
  MachineRecord record = calibrated_machine(2, cache, say);
  PlanRequest request;
  request.effective_batch = kEffective;
  request.units_per_sample = kShape.context;
  if (!folder.empty()) {
    add_disk_tier(record.machine, {folder, kDisk}, {}, cache, say);
    request.beyond = {kDisk};
  }
  cpu::set_thread_count(record.machine.threads);
  const auto source = [](std::int64_t micro) { return skip_network(micro, kShape).graph; };
  KernelSeconds seconds;
  MeasureLimits limits;
  limits.memory = available_memory().bytes;
  for (const std::int64_t micro : {1, 2, 4}) seconds.merge(measure_step(source(micro), micro, record.machine, limits).seconds);
  const Roofline& roofline = record.machine.rates;
  std::vector<Case> cases;
  std::set<std::string> known;
  // Once more where the plans have kernels that nothing has measured yet.
  for (int pass = 0; pass < 2; ++pass) {
    OpCatalogue catalogue(roofline, {seconds.begin(), seconds.end()});
    PlanSpace space(source, request, record.machine, catalogue);
    cases.clear();
    known.clear();
    double before = 1e30;
    for (int i = 0; i < budgets; ++i) {
      const Bytes budget{space.floor().n + (space.ceiling().n - space.floor().n) * i / std::max(1, budgets - 1)};
      Plan plan = std::get<Plan>(space.best({budget, {}, {}}));
      if (plan.update_seconds > before) fmt::print("{} is predicted slower than a smaller budget\n", to_text(budget));
      before = plan.update_seconds;
      if (known.insert(plan.plan_hash).second) cases.push_back({std::move(plan), budget, 1e30, {}});
    }
    if (pass > 0) break;
    for (const Case& one : cases) {
      const Graph graph = source(one.plan.decisions.micro_batch);
      seconds.merge(measure_kernels(graph, record.machine.threads, one.plan.decisions.loss_chunks, seconds, limits));
    }
  }
  int rejected = 0;
  for (int round = 0; round < rounds; ++round) {
    for (Case& one : cases) measure(one, folder.empty() ? "." : folder, updates, rejected);
  }
  fmt::print("{:>12}{:>12}{:>7}{:>8}{:>7}{:>12}{:>12}{:>9}\n", "budget", "process", "split", "replays", "disk", "predicted",
             "measured", "error");
  std::vector<double> errors;
  std::map<std::int64_t, std::set<std::string>> hashes;  // by micro-batch
  for (const Case& one : cases) {
    const double error = one.plan.update_seconds / one.seconds - 1;
    hashes[one.plan.decisions.micro_batch].insert(one.hash);
    fmt::print("{:>12}{:>12}{:>5}x{}{:>8}{:>7}{:>10.1f}ms{:>10.1f}ms{:>8.1f}%\n", to_text(one.budget), to_text(one.plan.process),
               one.plan.decisions.micro_batch, one.plan.decisions.accumulation, one.plan.decisions.replays.size(),
               one.plan.decisions.paging.active() ? "yes" : "no", 1e3 * one.plan.update_seconds, 1e3 * one.seconds, 100 * error);
    if (one.seconds < 1e29) errors.push_back(std::abs(error));
  }
  const bool same = std::all_of(hashes.begin(), hashes.end(), [](const auto& of) { return of.second.size() == 1; });
  const auto within = std::count_if(errors.begin(), errors.end(), [](double error) { return error <= 0.15; });
  fmt::print(
      "{} plans at {} budgets; {} of {} within 15 %, median {:.1f} %, worst {:.1f} %; {} updates rejected; bits of one split "
      "{}\n",
      cases.size(), budgets, within, errors.size(), errors.empty() ? 0 : 100 * median(errors),
      errors.empty() ? 0 : 100 * *std::max_element(errors.begin(), errors.end()), rejected, same ? "equal" : "DIFFER");
  return same ? 0 : 1;
}
