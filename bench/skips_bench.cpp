// Predicted and measured update times of a graph without repeated pieces: n layers down and n layers up; each layer up also reads
// the result of its partner. Budgets go from the floor to the ceiling, as in bench/predicted_time.py, which is for models of a
// configuration. The least of a plan's medians counts. For plans with a disk, the median of all runs is compared with the median
// prediction from the disk's rates before and after each run.
//   skips_bench [BUDGETS] [UPDATES] [ROUNDS] [FOLDER]      with a folder, plans may use a disk there
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "base/clock.h"
#include "base/error.h"
#include "device/cpu/parallel.h"
#include "device/process_memory.h"
#include "measure/calibrate.h"
#include "measure/measure_disk.h"
#include "measure/measure_step.h"
#include "ops/op_catalogue.h"
#include "plan/build_plan.h"
#include "plan/search/space.h"
#include "session/probe.h"
#include "tests/run/network_run.h"

using namespace plimsoll;

namespace {

constexpr std::int64_t kEffective = 4;
constexpr SkipShape kShape{256, 2048, 768, 6};
constexpr double kBusy = 0.1;  // share of the machine used by other processes
constexpr Bytes kDisk{8LL << 30};
constexpr const char* kMeasureDisk = "--measure-disk";

struct Case {
  Plan plan;
  Bytes budget;
  std::vector<double> predicted, measured;  // seconds, by run
  std::string hash;

  // Seconds of the fastest run; with a disk, whose rates differ from run to run, medians of all runs.
  std::pair<double, double> predicted_and_measured() const {
    if (plan.decisions.residency.active()) return {median(predicted), median(measured)};
    return {plan.update_seconds, *std::ranges::min_element(measured)};
  }
};

// The input of planning, apart from the disk.
struct Place {
  Machine machine;
  PlanRequest request;
  OpCatalogue& catalogue;
  std::filesystem::path program, folder, cache;

  // Measured by another process, since a child of a computing process has no team of threads for the measurement.
  void measure_disk() const {
    for (const auto& file : std::filesystem::directory_iterator(cache)) {
      if (file.path().filename().string().starts_with("disk-")) std::filesystem::remove(file.path());
    }
    const std::string command = fmt::format("'{}' {} '{}' '{}'", program.string(), kMeasureDisk, folder.string(), cache.string());
    ensure(std::system(command.c_str()) == 0, "bench", "the disk could not be measured");
  }

  // Seconds of an update of the plan with the rates that the disk has now.
  double predicted(const Plan& plan, const Graph& graph) const {
    if (!plan.decisions.residency.active()) return plan.update_seconds;
    Machine now = machine;
    measure_disk();
    add_disk_tier(now, {folder, kDisk}, {}, cache, nullptr);
    return build_plan(graph, find_units(graph), plan.decisions, request, now, catalogue, &plan.offsets).update_seconds;
  }
};

// One run of a plan: the first update warms up.
void measure(Case& one, const Place& place, int updates, int& rejected) {
  const RandomNetwork network = skip_network(one.plan.decisions.micro_batch, kShape);
  const double before = place.predicted(one.plan, network.graph);
  NetworkRun run(network, one.plan, kEffective, place.folder.empty() ? "." : place.folder);
  run.load();
  run.update();
  std::vector<double> seconds;
  for (int i = 0; i < updates; ++i) {
    const Contention contention;
    const double start = seconds_now();
    run.update();
    const double took = seconds_now() - start;
    if (contention.sharing().most() > kBusy) {
      ++rejected;
    } else {
      seconds.push_back(took);
    }
  }
  const double after = place.predicted(one.plan, network.graph);
  if (!seconds.empty()) {
    one.predicted.push_back((before + after) / 2);
    one.measured.push_back(median(seconds));
  }
  one.hash = run.hash_parameters();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 4 && argv[1] == std::string_view(kMeasureDisk)) {
    MachineRecord record = calibrated_machine(2, argv[3], probe_shape, nullptr);
    add_disk_tier(record.machine, {argv[2], kDisk}, {}, argv[3], nullptr);
    return 0;
  }
  const int budgets = argc > 1 ? std::atoi(argv[1]) : 20, updates = argc > 2 ? std::atoi(argv[2]) : 5;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 2;
  const std::filesystem::path folder = argc > 4 ? argv[4] : "";
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const auto say = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  const std::filesystem::path cache = "/tmp/plimsoll-skips-bench";
  std::filesystem::remove_all(cache);  // machine and disk are measured in this run
  MachineRecord record = calibrated_machine(2, cache, probe_shape, say);
  PlanRequest request;
  request.effective_batch = kEffective;
  request.units_per_sample = kShape.context;
  const Machine without_disk = record.machine;
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
  // Once more if the plans have kernels that have not been measured.
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
      if (known.insert(plan.plan_hash).second) cases.push_back({std::move(plan), budget, {}, {}, {}});
    }
    if (pass > 0) break;
    for (const Case& one : cases) {
      const Graph graph = source(one.plan.decisions.micro_batch);
      seconds.merge(measure_kernels(graph, record.machine.threads, one.plan.decisions.loss_chunks, seconds, limits));
    }
  }
  OpCatalogue catalogue(roofline, {seconds.begin(), seconds.end()});
  const Place place{without_disk, request, catalogue, std::filesystem::canonical("/proc/self/exe"), folder, cache};
  int rejected = 0;
  for (int round = 0; round < rounds; ++round) {
    for (Case& one : cases) measure(one, place, updates, rejected);
  }
  fmt::print("{:>12}{:>12}{:>7}{:>8}{:>7}{:>12}{:>12}{:>9}\n", "budget", "process", "split", "replays", "disk", "predicted",
             "measured", "error");
  std::vector<double> errors;
  std::map<std::int64_t, std::set<std::string>> hashes;  // by micro-batch
  for (const Case& one : cases) {
    hashes[one.plan.decisions.micro_batch].insert(one.hash);
    if (one.measured.empty()) continue;
    const auto [predicted, measured] = one.predicted_and_measured();
    const double error = predicted / measured - 1;
    errors.push_back(std::abs(error));
    fmt::print("{:>12}{:>12}{:>5}x{}{:>8}{:>7}{:>10.1f}ms{:>10.1f}ms{:>8.1f}%\n", to_text(one.budget), to_text(one.plan.process),
               one.plan.decisions.micro_batch, one.plan.decisions.accumulation, one.plan.decisions.replays.size(),
               one.plan.decisions.residency.active() ? "yes" : "no", 1e3 * predicted, 1e3 * measured, 100 * error);
    for (std::size_t run = 0; run < one.measured.size() && one.plan.decisions.residency.active(); ++run) {
      fmt::print("{:>58}{:>10.1f}ms{:>10.1f}ms{:>8.1f}%\n", "run", 1e3 * one.predicted[run], 1e3 * one.measured[run],
                 100 * (one.predicted[run] / one.measured[run] - 1));
    }
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
