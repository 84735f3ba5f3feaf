// One training step, op by op: seconds, rates and the share of the step, and the roofline of the same step.
//   step_bench CONFIG [UPDATES] [MEMORY] [DISK]      the plan and the machine file are those of `plimsoll train`
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/error.h"
#include "config/config_keys.h"
#include "device/cpu/parallel.h"
#include "measure/calibrate.h"
#include "prepare/epochs.h"
#include "prepare/prepare.h"
#include "profile/op_seconds.h"
#include "run/instruction_timer.h"
#include "run/stores.h"
#include "session/probe.h"
#include "train/trainer.h"

using namespace plimsoll;

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const int updates = argc > 2 ? std::atoi(argv[2]) : 4;
  Changes budgets;
  if (argc > 3) budgets.emplace_back("memory.budget", argv[3]);
  if (argc > 4) budgets.emplace_back("memory.disk", argv[4]);
  setenv("OMP_WAIT_POLICY", "passive", 0);
  const Config config = load_config(argv[1], typed_settings(budgets));
  const auto prepared_or = prepare_training(config, {.machine = {}, .probe = probe_shape, .cache = "/tmp/plimsoll-bench-cache"},
                                            [](const std::string&) {});
  const Prepared& prepared = std::get<Prepared>(prepared_or);
  cpu::set_thread_count(config.threads);
  const DataFiles& data = prepared.data;
  const TrainingGraph model = build_training_graph(config, facts_of(config, prepared), prepared.record.decisions.micro_batch);
  const Plan plan = rebuild_plan(config, model, prepared);
  const Program program = lower(plan);
  const Arena arena(plan.arena);
  if (config.memory.disk) create_disk_folder(*config.memory.disk);
  const Stores stores(program, plan, config.memory.disk ? config.memory.disk->folder : ".");
  CpuDevice device(arena, stores.all());
  Executor executor(plan.graph, program, device, plan.threads, plan.decisions.loss_chunks);
  const DataSources sources(config, data);
  Trainer trainer(config, model, plan, executor, sources.data());
  trainer.load(nullptr);
  trainer.update();
  InstructionTimer timer(program, plan.graph, device);
  executor.add_observer(timer);
  const auto start = std::chrono::steady_clock::now();
  std::vector<double> seconds;
  for (int i = 0; i < updates; ++i) seconds.push_back(trainer.update().seconds);
  const double total = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const Roofline& rates = prepared.machine.rates;
  const SecondsByKind times = seconds_by_kind(plan.graph, program, timer, rates, /*shapes=*/true);
  double bound = 0;
  fmt::print("{:<86}{:>6}{:>10}{:>7}{:>9}{:>8}{:>8}\n", "op", "runs", "ms/step", "%", "GFLOP/s", "GB/s", "bound%");
  for (const OpSeconds& op : times.ops) {
    bound += op.bound;
    fmt::print("{:<86}{:>6}{:>10.2f}{:>6.1f}%{:>9.0f}{:>8.1f}{:>7.0f}%\n", op.op, op.runs / updates, 1e3 * op.seconds / updates,
               100 * op.seconds / total, op.cost.flops / op.seconds / 1e9, op.cost.bytes / op.seconds / 1e9,
               100 * op.bound / op.seconds);
  }
  const std::pair<const char*, double> others[] = {
      {"copies between tiers", times.copies}, {"feed and fetch", times.feed}, {"other", total - times.all()}};
  for (const auto& [name, each] : others) {
    fmt::print("{:<92}{:>10.2f}{:>6.1f}%\n", name, 1e3 * each / updates, 100 * each / total);
  }
  std::sort(seconds.begin(), seconds.end());
  const double median = seconds[seconds.size() / 2];
  const auto units = static_cast<double>(plan.units_per_update);
  fmt::print("median {:.3f} s ({:.1f} units/s), best {:.3f} s ({:.1f}); roofline {:.3f} s: {:.0f} %\n", median, units / median,
             seconds.front(), units / seconds.front(), bound / updates, 100 * bound / updates / median);
  fmt::print("machine: {:.0f} GFLOP/s, {:.1f} GB/s\n", rates.flops_per_second / 1e9, rates.bytes_per_second / 1e9);
}
