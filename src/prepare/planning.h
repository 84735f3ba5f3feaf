// Planning for a configuration on a machine: the plan for a budget with its levers, or the reason why nothing fits and the
// cheapest changes that do. Each lever and change has been planned itself. Meant for a child process or for `plimsoll plan`.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/run_settings.h"
#include "data/recurrence.h"
#include "device/machine_facts.h"
#include "measure/calibrate.h"
#include "measure/machine_file.h"
#include "ops/op_catalogue.h"
#include "prepare/data_files.h"
#include "prepare/epochs.h"
#include "prepare/held_out_prompts.h"
#include "prepare/plan_json.h"
#include "prepare/training_graph.h"

namespace plimsoll {

// The settings of a configuration; with changes they make another one.
struct ConfigSource {
  RunSettings settings;
  Bf16Speed bf16 = bf16_speed_here();
};

struct PlanningInput {
  PlanRequest request;
  Budget budget;
  MachineRecord machine;
  DataFiles data;
  DataFacts facts;
  std::optional<EpochFacts> epoch;     // for samples of their own lengths, or for updates of a number of tokens
  std::optional<Recurring> recurring;  // validation samples that training has seen, for data that tell
  std::vector<AssumedData> assumed;    // for missing data files; `data` is empty then
  std::filesystem::path cache;
  std::filesystem::path runs = ".";         // parent of the run folders: a disk is proposed there
  std::optional<ConfigSource> source = {};  // absent: no levers or remedies
  bool other_ranks = false;                 // remedies may add ranks
};

// The request, the budget and the machine of an input, with other facts, and without its data.
PlanningInput with_facts(const PlanningInput& input, const DataFacts& facts);

// The machine of a plan, and the circumstances of planning.
struct PlanningPlace {
  std::optional<MachineRecord> machine;  // absent: this one
  Probe probe = {};                      // measures this machine if no file has it
  bool runs_now = true;                  // the plan is to run now: it needs the data, and a budget that this machine has
  std::filesystem::path tokens = {};     // folder for token files if the cache cannot be written; empty: none
  bool begins = true;                    // the training begins from the weights of model.init, not from a checkpoint
  bool tells_assumed = true;             // reports assumptions about missing data
  Repeat repeat = Repeat::never;         // repetition of a measurement that ran next to other work
  RankShare share = {};                  // the rank that the plan is for; rank -1: the fullest
  Bytes peers = {};                      // memory of the messages between ranks
};

// The inputs of graphs in addition to the configuration: read from data files that exist, assumed for missing ones.
DataFacts planned_facts(const Config& config, const std::filesystem::path& cache);

// The memory limit of planning: the budget of the training on this machine. Nothing without a budget, for another machine or for
// a GPU.
std::optional<Bytes> planning_memory(const Config& config, const PlanningPlace& place = {});

// Reads the header of the weights, the vocabulary and the validation tokens, measures the machine if no file has it, opens (and
// tokenises) the data, and settles the budget (see settle_budget). A plan that is not to run now needs no data: the
// assumptions about missing files are reported.
PlanningInput planning_input(const Config& config, const std::filesystem::path& cache,
                             const std::function<void(const std::string&)>& say, const PlanningPlace& place = {});

// A missing memory budget becomes 95 % of the available memory. A budget above the available memory is reported, or is
// E-MEM-MACHINE (exit 3) if the plan is to run now. `say` may be empty.
void settle_budget(Budget& budget, const MemoryFact& available, bool runs_now,
                   const std::function<void(const std::string&)>& say);

// The kernels of a GPU or of a processor; those of a machine without libraries (the simulated one) are the same on every
// processor.
const OpKernels& kernels_of(const Machine& machine);
OpCatalogue catalogue_of(const MachineRecord& record);

struct PlanExtras {
  bool values = false;
  bool levers = false;
  bool answers = true;                                           // plans answers to held-out prompts, if they are asked for
  int frontier_points = 0;                                       // 0: no frontier
  std::vector<Bytes> frontier_budgets = {};                      // each gets a point of its own
  std::function<void(const nlohmann::json& plan)> decided = {};  // gets the plan or the refusal before the search for levers
  double work = 0;                                               // already spent: reduces the work for levers and remedies
};

struct PlanningResult {
  std::string text;          // the JSON object plimsoll.plan/1
  std::optional<Plan> plan;  // absent: infeasible
  HeldOutPrompts prompts;    // of a plan with answers
};

// Runs `work` in a child. If the memory limit has no room for it, another child runs it with the smallest plans alone.
std::string plan_in_child(const std::function<std::string(bool floors_alone)>& work, const std::function<bool()>& stopped = {});

// Makes the heap keep freed memory, for a process that plans and ends. Call it after planning_input, which may measure this
// machine and would count the kept memory.
void keep_freed_memory();
PlanningResult plan_with_extras(const Config& config, const PlanningInput& input, const PlanExtras& extras);
// The plan in a file, rebuilt and judged; E-PLAN-REPLAY if it belongs to another configuration, E-PLAN-FIT if it exceeds the
// budget.
PlanningResult replay_plan(const Config& config, const PlanningInput& input, const PlanRecord& record);

}  // namespace plimsoll
