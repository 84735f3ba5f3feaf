// The planner as a whole: exact profiles, the ladder, floors, invariants of plans, replay, and how long planning takes.

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "base/clock.h"
#include "base/error.h"
#include "plan/costs.h"
#include "plan/layout/judge.h"
#include "plan/search/candidates.h"
#include "plan/small_models.h"
#include "prepare/plan_json.h"

namespace plimsoll {
namespace {

// Budgets from the floor to beyond the ceiling.
std::vector<Bytes> budgets(PlanSpace& space, int count) {
  std::vector<Bytes> result;
  const std::int64_t floor = space.floor().n, span = space.ceiling().n - floor;
  for (int i = 0; i < count; ++i) result.push_back(Bytes{floor + span * i / (count - 2)});
  return result;
}

// Recomputes the figures of a plan from its values, without the planner's own analysis.
void expect_invariants(const Plan& plan, const std::string& where) {
  SCOPED_TRACE(where);
  EXPECT_EQ(plan.process, plan.arena + total(plan.reserve));
  EXPECT_LE(plan.live, plan.arena);
  Bytes arena, live;
  for (const PhasePlan& phase : plan.phases) {
    arena = std::max(arena, phase.arena);
    live = std::max(live, phase.live);
    Bytes owners;
    for (const OwnerBytes& owner : phase.owners) owners += owner.bytes;
    EXPECT_EQ(owners, phase.live) << phase.name;
    EXPECT_LE(phase.live, phase.arena) << phase.name;
  }
  EXPECT_EQ(arena, plan.arena);
  EXPECT_EQ(live, plan.live);
  EXPECT_EQ(plan.decisions.micro_batch * plan.decisions.accumulation, plan.effective_batch);
}

void expect_no_overlap(const Plan& plan, const std::string& where) {
  const nlohmann::json values = to_json(plan, {}, true).at("values");
  struct Range {
    std::string phase;
    std::int64_t begin, end, low, high, id;
  };
  std::vector<Range> ranges;
  for (const auto& value : values) {
    if (!value.at("alias_of").is_null()) continue;
    for (const auto& range : value.at("ranges")) {
      const std::int64_t offset = range.at("offset");
      ranges.push_back({range.at("phase"), range.at("begin"), range.at("end"), offset,
                        offset + value.at("bytes").get<std::int64_t>(), value.at("id")});
      EXPECT_LE(ranges.back().high, plan.arena.n);
    }
  }
  int clashes = 0;
  for (const Range& a : ranges) {
    for (const Range& b : ranges) {
      if (a.id < b.id && a.phase == b.phase && a.begin < b.end && b.begin < a.end && a.low < b.high && b.low < a.high) ++clashes;
    }
  }
  EXPECT_EQ(clashes, 0) << where;
}

std::string text_of(const BatchCandidates& batch, const Candidate& candidate) {
  std::string text;
  for (const UnitDecision& unit : describe_units(batch.model().graph, batch.model().units, batch.replays(candidate)))
    text += std::string(name(unit.mode)) + (unit.pieces ? " in pieces, " : ", ");
  return text + std::to_string(candidate.loss_chunks) + " chunks";
}

// Residencies with small pages.
const Residency kPagings[] = {
    {},
    {.pages = {1024, 4}, .optimizer_state = kBeyond},
    {.pages = {1024, 2}, .optimizer_state = kBeyond, .parameters = kBeyond},
    {.pages = {1024, 4}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond},
    {.pages = {kPageStep, 2},
     .optimizer_state = kBeyond,
     .parameters = {.beyond = true, .kept = 1},
     .accumulators = {.beyond = true, .kept = 1},
     .tables = kBeyond},
    {.pages = {1024, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond, .by_matrix = true},
    {.pages = {kPageStep, 3},
     .optimizer_state = kBeyond,
     .parameters = {.beyond = true, .kept = 2},
     .tables = kBeyond,
     .by_matrix = true}};

Bytes most_live(const Simulation& simulation) {
  Bytes live;
  for (const Phase phase : simulation.timeline.phases()) {
    if (simulation.timeline.of(phase).empty()) continue;
    live = std::max(live, live_profile(simulation.lifetimes, simulation.timeline, phase).peak);
  }
  return live;
}

// A path of arbitrary edges, not only of those that the chain program chooses.
regions::ChainPlan random_path(const RegionPlans& regions, std::mt19937& random) {
  regions::ChainPlan plan{.bytes = regions.outside(), .edges = {}};
  std::int64_t saved = 0;
  for (std::size_t region = 0; region < regions.edges().size();) {
    const std::vector<regions::Edge>& edges = regions.edges()[region];
    const regions::Edge& edge = edges[random() % edges.size()];
    plan.bytes = std::max(plan.bytes, saved + edge.peak);
    saved += edge.saved;
    plan.edges.push_back(&edge);
    region = static_cast<std::size_t>(edge.end);
  }
  plan.bytes = std::max(plan.bytes, saved + regions.ends().front().bytes);
  return plan;
}

void expect_clones_are_read(const Graph& graph) {
  std::set<ValueId> read;
  for (const Node& node : graph.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  for (const Node& node : graph.nodes) {
    if (!node.clone_of.valid() || node.op->view) continue;
    EXPECT_TRUE(std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return read.contains(id); }))
        << node.line.text() << " runs again for nobody";
  }
}

// Paths that were compared, so that no kind of plan is missing.
struct Compared {
  int paths = 0, grouped = 0, paged = 0, early = 0, away = 0;
};

void compare_random_paths(BatchModel& model, const Residency& residency, std::int64_t group, const PlanRequest& request,
                          std::mt19937& random, Compared& compared) {
  constexpr int kPaths = 8;
  const Machine machine = round_machine();
  const BatchCandidates batch(model, residency, group, request, machine, {.counts = true});
  for (int path = 0; path < kPaths; ++path) {
    const std::size_t level = group > 1 ? 0 : random() % batch.levels();  // grouped, a level is simulated
    const RegionPlans& regions = batch.regions(level);
    const regions::ChainPlan plan = random_path(regions, random);
    const Residency own = batch.residency({.level = level});
    const Simulation full = simulate(apply_decisions(model.graph, model.units, regions.replays(plan), own, batch.window()),
                                     batch.window().rounds(), 1, true, model.kernels);
    expect_clones_are_read(full.graph);
    const Bytes live = most_live(full);
    SCOPED_TRACE(testing::Message() << "group " << group << ", page " << own.pages.elements << ", parameters "
                                    << own.parameters.beyond << ", activations " << own.inputs << ", narrow " << own.by_matrix);
    if (regions.exact()) {
      EXPECT_EQ(plan.bytes, live.n);
    } else {
      EXPECT_GE(plan.bytes, live.n);
    }
    ++compared.paths;
    compared.away += own.inputs > 0;
    compared.grouped += group > 1;
    compared.paged += residency.active();
    compared.early += full.timeline.early_updates;
  }
}

TEST(Candidates, AnyPathOfEdgesIsTheFullSimulation) {
  constexpr std::int64_t kBatch = 6;
  std::mt19937 random(7);
  Compared compared;
  std::vector<ModelShape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.push_back({4, 32, 2, 8, 9001});
  shapes.push_back({9, 64, 2, 8, 64});
  for (const ModelShape& shape : shapes) {
    const Config config = config_for(shape, kBatch);
    PlanRequest request = plan_request(config);
    request.beyond = {kGiB * 8};
    for (const std::int64_t micro : {1, 3, 6}) {
      SCOPED_TRACE(testing::Message() << testing::PrintToString(shape) << ", micro " << micro);
      const std::int64_t window = kBatch / micro;
      OpCatalogue catalogue = round_catalogue();
      BatchModel model(build_training_graph(config, kTrainAndValidate, micro).graph, micro, window, round_machine().threads,
                       catalogue);
      for (const Residency& residency : kPagings) {
        compare_random_paths(model, residency, 1, request, random, compared);
        // The order of the segments of a narrow group follows from the nodes that run again, so it is simulated.
        const bool simulated = window > 1 && residency.by_matrix;
        if (!simulated) compare_random_paths(model, residency, window, request, random, compared);
      }
    }
  }
  EXPECT_GT(compared.paths, 1000);
  EXPECT_GT(compared.grouped, 100);
  EXPECT_GT(compared.paged, 500);
  EXPECT_GT(compared.early, 20);
  EXPECT_GT(compared.away, 50);
}

TEST(Candidates, ComposedProfileIsTheFullSimulation) {
  std::mt19937 random(20240611);
  std::vector<ModelShape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.push_back({4, 32, 2, 8, 9001});
  int exact = 0;
  for (const ModelShape& shape : shapes) {
    for (int round = 0; round < 14; ++round) {
      const std::int64_t micro = std::array{1, 3, 6}[static_cast<std::size_t>(round % 3)];
      const Config config = config_for(shape, 6);
      OpCatalogue catalogue = round_catalogue();
      const Machine machine = round_machine();
      const Residency residency = kPagings[static_cast<std::size_t>(round) % std::size(kPagings)];
      BatchModel model(build_training_graph(config, kTrainAndValidate, micro).graph, micro, 6 / micro, machine.threads,
                       catalogue);
      const std::int64_t group = 6 / micro % (1 + round / 7) == 0 ? 1 + round / 7 : 6 / micro;
      const PlanRequest request = plan_request(config);
      BatchCandidates batch(model, residency, group, request, machine, {.counts = true});
      batch.complete();
      std::vector<Candidate> candidates = batch.all(0);
      for (const Candidate& candidate : candidates) {
        EXPECT_GE(candidate.live, batch.arena_bound()) << "groups of " << group << " of " << 6 / micro << ", round " << round;
      }
      std::shuffle(candidates.begin(), candidates.end(), random);
      candidates.resize(std::min<std::size_t>(candidates.size(), 30));
      for (const Candidate& candidate : candidates) {
        const Simulation full = simulate(
            apply_decisions(model.graph, model.units, batch.replays(candidate), batch.residency(candidate), batch.window()),
            batch.window().rounds(), candidate.loss_chunks, true, model.kernels);
        const Bytes live = most_live(full);
        const Costs costs = costs_of(full, residency, machine);
        const std::string what = text_of(batch, candidate);
        Candidate known = candidate, *const one = &known;
        if (!batch.exact_seconds(candidate)) batch.simulate({&one, 1});
        if (known.simulated || batch.exact(candidate)) {
          EXPECT_EQ(known.live, live) << shape.layers << " layers, micro " << micro << ", round " << round << ": " << what;
        } else {
          EXPECT_GE(known.live, live) << shape.layers << " layers, micro " << micro << ", round " << round << ": " << what;
        }
        exact += batch.exact(candidate) && batch.exact_seconds(candidate) ? 1 : 0;
        const double seconds =
            static_cast<double>(batch.window().rounds()) * (costs.micro + costs.micro_stall) + costs.update + costs.update_stall;
        EXPECT_NEAR(known.update_seconds, seconds, 1.5e-11 * seconds) << what << ", round " << round;
      }
    }
  }
  EXPECT_GT(exact, 400);
}

TEST(Ladder, FewerBytesCostMoreTime) {
  for (const ModelShape& shape : kShapes) {
    Planner planner(config_for(shape, 6));
    const std::vector<Candidate>& ladder = planner.space.ladder();
    ASSERT_FALSE(ladder.empty());
    Bytes held = ladder[0].held(), values = ladder[0].values();
    for (std::size_t i = 1; i < ladder.size(); ++i) {
      EXPECT_TRUE(ladder[i].held() < held || ladder[i].values() < values) << i;
      EXPECT_GE(ladder[i].update_seconds, ladder[i - 1].update_seconds);
      held = std::min(held, ladder[i].held()), values = std::min(values, ladder[i].values());
    }
    // A number with half of its bits: equal costs that are added in another order compare equal.
    for (const Candidate& each : ladder) {
      const double ulps = each.update_seconds / (std::nextafter(each.update_seconds, 1e9) - each.update_seconds);
      EXPECT_EQ(std::fmod(ulps, 1 << 16), 0) << each.update_seconds;
    }
  }
}

TEST(Planner, EveryBudgetFitsAndMoreIsNeverSlower) {
  for (const ModelShape& shape : kShapes) {
    for (const bool given : {false, true}) {
      Config config = config_for(shape, 6);
      if (given) config.train.micro_batch = 2, config.train.accumulation = 3;
      Planner planner(config);
      double before = 1e30;
      for (const Bytes budget : budgets(planner.space, 12)) {
        const Plan plan = planner.plan(budget);
        const std::string where = std::to_string(shape.layers) + " layers at " + std::to_string(budget.n);
        EXPECT_LE(plan.process, budget) << where;
        EXPECT_LE(plan.update_seconds, before) << where;
        before = plan.update_seconds;
        expect_invariants(plan, where);
        expect_no_overlap(plan, where);
      }
    }
  }
}

TEST(Planner, FloorIsExact) {
  for (const ModelShape& shape : kShapes) {
    Planner planner(config_for(shape, 6));
    const Bytes floor = planner.space.floor();
    EXPECT_TRUE(std::holds_alternative<Plan>(planner.at(floor)));
    const auto refused = planner.at(floor - kPage);
    ASSERT_TRUE(std::holds_alternative<Infeasible>(refused));
    const Infeasible& infeasible = std::get<Infeasible>(refused);
    EXPECT_EQ(infeasible.floor, floor);
    EXPECT_LE(infeasible.floor_bound, floor);
    Bytes owners;
    for (const OwnerBytes& owner : infeasible.owners) owners += owner.bytes;
    EXPECT_LE(owners, floor);
    EXPECT_GE(owners.n, floor.n * 99 / 100) << "the table of owners explains the floor";
  }
}

TEST(Planner, FloorsAloneAreEnoughForAllPlans) {
  for (const ModelShape& shape : kShapes) {
    for (const bool disk : {false, true}) {
      const Config config = config_for(shape, 6);
      PlanRequest request = plan_request(config);
      if (disk) request.beyond = {kGiB * 8};
      OpCatalogue catalogue = round_catalogue();
      PlanSpace all(source_for(config), request, round_machine(), catalogue);
      request.floor_only = true;
      PlanSpace few(source_for(config), request, round_machine(), catalogue);
      EXPECT_GE(few.floor(), all.floor());
      EXPECT_LE(few.floor().n, all.floor().n * 11 / 10);
      EXPECT_LT(few.effort().work, all.effort().work);
    }
  }
}

TEST(Candidates, WhatIsNotWantedHasBoundsAlone) {
  const Config config = config_for({6, 64, 4, 32, 301}, 12);
  const PlanRequest request = plan_request(config);
  OpCatalogue catalogue = round_catalogue();
  BatchModel one(build_training_graph(config, kTrainAndValidate, 1).graph, 1, 12, round_machine().threads, catalogue);
  const Machine machine = round_machine();
  const BatchCandidates wanted(one, {}, 1, request, machine, {});
  const BatchCandidates unwanted(one, {}, 1, request, machine, {}, [](const BatchCandidates&) { return false; });
  EXPECT_EQ(unwanted.levels(), 0U);
  EXPECT_TRUE(unwanted.all(0).empty());
  EXPECT_LE(unwanted.bound(), wanted.bound()) << "its bounds count all the same";
  EXPECT_EQ(unwanted.kernel_seconds(), wanted.kernel_seconds());
}

TEST(Planner, ConstrainedRequestsAreObeyed) {
  Config config = config_for(kShapes[0], 6);
  config.plan.recompute = RecomputePolicy::all;
  config.plan.loss_chunks = 3;
  config.train.micro_batch = 3;
  config.train.accumulation = 2;
  Planner planner(config);
  for (const Bytes budget : {planner.space.floor(), planner.space.ceiling()}) {
    const Plan plan = planner.plan(budget);
    EXPECT_EQ(plan.decisions.loss_chunks, 3);
    EXPECT_EQ(plan.decisions.micro_batch, 3);
    for (const UnitDecision& unit : plan.units) EXPECT_NE(unit.mode, UnitMode::keep) << unit.unit;
  }
  config.plan.recompute = RecomputePolicy::none;
  Planner keeping(config);
  EXPECT_TRUE(keeping.plan(keeping.space.floor()).decisions.replays.empty());
}

TEST(Planner, SimulatesLittleMoreThanItsCombinations) {
  for (const bool disk : {false, true}) {
    const Config config = config_for({6, 64, 4, 32, 301}, 12);
    PlanRequest request = plan_request(config);
    if (disk) request.beyond = {kGiB * 8};
    OpCatalogue catalogue = round_catalogue();
    const PlanSpace space(source_for(config), request, round_machine(), catalogue);
    const PlanningEffort effort = space.effort();
    EXPECT_GE(effort.simulations, effort.combinations);
    EXPECT_LE(effort.simulations, effort.combinations + 200);
    EXPECT_GT(effort.labels, 100);
    EXPECT_LT(effort.labels, 20'000'000);
  }
}

// With other tiers too, each budget gets an answer, and a larger budget is never slower.
TEST(Planner, EveryBudgetOfADeepModelHasAPlan) {
  const Config config = config_for({24, 256, 8, 64, 997}, 8, 0.1);
  for (const Machine& machine : {round_machine(), round_device()}) {
    SCOPED_TRACE(machine.tiers[1].name);
    PlanRequest request = plan_request(config);
    request.beyond.assign(machine.tiers.size() - 1, kGiB * 8);
    OpCatalogue catalogue = round_catalogue();
    PlanSpace space(source_for(config), request, machine, catalogue);
    EXPECT_TRUE(std::holds_alternative<Plan>(space.best({})));
    double before = 0;
    for (int i = 12; i >= 0; --i) {
      const Bytes budget{space.floor().n + (space.ceiling().n - space.floor().n) * i / 12};
      const auto best = space.best({budget, {}, {}});
      ASSERT_TRUE(std::holds_alternative<Plan>(best)) << i;
      EXPECT_LE(std::get<Plan>(best).process, budget);
      EXPECT_GE(std::get<Plan>(best).update_seconds, before);
      before = std::get<Plan>(best).update_seconds;
    }
  }
}

TEST(Planner, IsAPureFunctionOfItsRequest) {
  const Config config = config_for(kShapes[0], 6);
  Planner one(config), two(config);
  const Bytes budget{(one.space.floor().n + one.space.ceiling().n) / 2};
  two.at(two.space.ceiling());  // other budgets before it change nothing
  two.at(two.space.floor());
  EXPECT_EQ(one.plan(budget).plan_hash, two.plan(budget).plan_hash);
}

TEST(Planner, ValueIdsAreTheSameForEveryMicroBatch) {
  const Config config = config_for(kShapes[0], 12);
  const Graph one = build_training_graph(config, kTrainAndValidate, 1).graph;
  for (const std::int64_t micro : {2, 12}) {
    const Graph other = build_training_graph(config, kTrainAndValidate, micro).graph;
    ASSERT_EQ(one.values.size(), other.values.size());
    for (std::size_t i = 0; i < one.values.size(); ++i) EXPECT_EQ(one.values[ValueId{i}].name, other.values[ValueId{i}].name);
  }
}

// In memory alone, with replays of single nodes, and with as much as possible on a disk.
TEST(PlanRecord, RebuildsTheSamePlan) {
  std::vector<ModelShape> shapes(std::begin(kShapes), std::end(kShapes));
  shapes.push_back({3, 64, 2, 12, 9001});
  shapes.push_back({8, 128, 2, 12, 301});
  int replays = 0, tables = 0, stays = 0;
  for (std::size_t i = 0; i < 2 * shapes.size(); ++i) {
    Config config = config_for(shapes[i / 2], 6);
    if (i % 2 == 1) config.memory.disk = DiskBudget{"/", kGiB};
    Planner planner(config);
    const Bytes floor = planner.space.floor(), span = planner.space.ceiling() - floor;
    for (const std::int64_t tenths : {0, 1, 2, 3, 5, 10}) {
      const Plan plan = planner.plan(floor + Bytes{span.n * tenths / 10});
      replays += !plan.decisions.replays.empty();
      tables += plan.decisions.residency.tables.beyond && plan.decisions.residency.by_matrix;
      stays += plan.decisions.residency.kept() > 0;
      const nlohmann::json printed = nlohmann::json::parse(to_json(plan, {}, false).dump());
      const PlanRecord record = record_from_json(printed.at("record"));
      const Graph graph = build_training_graph(config, kTrainAndValidate, record.decisions.micro_batch).graph;
      OpCatalogue catalogue({}, {});
      const Plan rebuilt = build_plan(graph, find_units(graph), record.decisions, plan_request(config), round_machine(),
                                      catalogue, &record.offsets);
      EXPECT_EQ(rebuilt.plan_hash, plan.plan_hash);
      EXPECT_EQ(rebuilt.process, plan.process);
      EXPECT_EQ(rebuilt.offsets, plan.offsets);
      EXPECT_EQ(to_json(record_of(rebuilt)), to_json(record_of(plan)));
      EXPECT_EQ(record.decisions.residency, plan.decisions.residency);
    }
  }
  EXPECT_GE(replays, 1);
  EXPECT_GE(tables, 1);
  EXPECT_GE(stays, 1);
}

// The state of as many blocks as the tier holds leaves memory, so the floor falls as the tier grows.
TEST(PlanSpace, ADiskWithRoomForSomeBlocksHoldsThem) {
  Config config = config_for({8, 128, 2, 12, 301}, 6);
  config.plan.parameters = RestPolicy::memory;
  const auto plan_with = [&](Bytes disk) {
    config.memory.disk = DiskBudget{"/", disk};
    Planner planner(config);
    return planner.plan(planner.space.floor());
  };
  const Plan all = plan_with(kGiB);
  const Bytes whole = all.stored[1];
  Bytes before = all.process;
  EXPECT_EQ(all.decisions.residency.kept(), 0);
  for (const std::int64_t eighths : {7, 5, 4}) {
    const Bytes room{whole.n * eighths / 8};
    const Plan some = plan_with(room);
    EXPECT_GT(some.decisions.residency.kept(), 0) << eighths;
    EXPECT_LE(some.stored[1], room) << eighths;
    EXPECT_GT(some.process, before) << eighths;
    before = some.process;
  }
}

TEST(PlanRecord, ChangedAddressesAreRefused) {
  const Config config = config_for(kShapes[0], 6);
  Planner planner(config);
  const Plan plan = planner.plan(planner.space.floor());
  const Graph graph = build_training_graph(config, kTrainAndValidate, plan.decisions.micro_batch).graph;
  OpCatalogue catalogue = round_catalogue();
  int refused = 0;
  for (std::size_t i = 0; i < plan.offsets.size(); ++i) {
    std::vector<Bytes> offsets = plan.offsets;
    offsets[i] -= kAlignment;
    try {
      const Plan moved =
          build_plan(graph, find_units(graph), plan.decisions, plan_request(config), round_machine(), catalogue, &offsets);
      EXPECT_NE(moved.plan_hash, plan.plan_hash);
    } catch (const Error& error) {
      EXPECT_EQ(error.code, "E-PLAN-REPLAY");
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(plan.offsets.size()) / 2);
  std::vector<Bytes> few(plan.offsets.begin(), plan.offsets.end() - 1);
  EXPECT_THROW(build_plan(graph, find_units(graph), plan.decisions, plan_request(config), round_machine(), catalogue, &few),
               Error);
}

TEST(PlanRecord, BrokenObjectsAreRefused) {
  const Config config = config_for(kShapes[0], 6);
  Planner planner(config);
  const nlohmann::json good = to_json(record_of(planner.plan(planner.space.ceiling())));
  for (const auto& [key, value] : good.items()) {
    nlohmann::json bad = good;
    bad.erase(key);
    EXPECT_THROW(record_from_json(bad), Error) << key;
    bad[key] = nlohmann::json::object({{"x", 1}});
    EXPECT_THROW(record_from_json(bad), Error) << key;
  }
}

struct GptFigures {
  double seconds, gap;
};

GptFigures plan_preset(const char* preset, std::int64_t effective, const char* label) {
  Config config = config_for(kShapes[0], effective);
  config.model.config = model_preset(preset);
  config.model.context = facts_of(config.model.config).positions;
  const double start = cpu_seconds_now();
  Planner planner(config);
  const Plan plan = planner.plan(planner.space.floor());
  const double seconds = cpu_seconds_now() - start;
  const double gap = static_cast<double>(plan.floor.n) / static_cast<double>(plan.floor_bound.n) - 1;
  printf("%s: planned in %.2f s of CPU, floor %s, %.2f %% above its bound, load %s, arena %s\n", label, seconds,
         to_text(plan.floor).c_str(), 100 * gap, to_text(plan.load).c_str(), to_text(plan.arena).c_str());
  expect_invariants(plan, label);
  return {seconds, gap};
}

TEST(Planner, PlansGpt2InTwoSecondsNearItsBound) {
  const GptFigures figures = plan_preset("gpt2", 32, "gpt2");
  EXPECT_LT(figures.seconds, 3 * 2.0);
  EXPECT_LT(figures.gap, 0.05);
}

TEST(Planner, PlansGpt2XlInTenSecondsNearItsBound) {
  const GptFigures figures = plan_preset("gpt2-xl", 32, "gpt2-xl");
  EXPECT_LT(figures.seconds, 3 * 10.0);
  EXPECT_LT(figures.gap, 0.05);
}

TEST(Planner, FloorsOfMiddleSizesLieNearTheirBounds) {
  EXPECT_LT(plan_preset("gpt2-medium", 8, "gpt2-medium").gap, 0.05);
  EXPECT_LT(plan_preset("byte-10m", 64, "byte-10m").gap, 0.05);
}

}  // namespace
}  // namespace plimsoll
