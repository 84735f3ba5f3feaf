#include "prepare/plan_json.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "plan/memory_series.h"

namespace plimsoll {
namespace {

using nlohmann::json;

json precision_json(const PrecisionNames& precision) {
  return {{"compute", precision.compute},
          {"storage", precision.storage},
          {"accumulation", precision.accumulation},
          {"optimizer_state", precision.optimizer_state}};
}

json budget_json(const Budget& budget) {
  return {{"memory", bytes_or_null(budget.memory)},
          {"host_memory", bytes_or_null(budget.host_memory)},
          {"disk", bytes_or_null(budget.disk)}};
}

json owners_json(const std::vector<OwnerBytes>& owners) {
  json object = json::object();
  for (const OwnerBytes& owner : owners) object[owner.owner] = owner.bytes.n;
  return object;
}

json owners_list(const std::vector<OwnerBytes>& owners) {
  json list = json::array();
  for (const OwnerBytes& owner : owners) {
    list.push_back(
        {{"name", owner.owner}, {"bytes", owner.bytes.n}, {"model_line", owner.line.empty() ? json(nullptr) : json(owner.line)}});
  }
  return list;
}

json tiers_json(const Plan& plan) {
  json tiers = json::array({{{"name", plan.tiers[0].name}, {"arena_bytes", plan.arena.n}, {"live_bytes", plan.live.n}}});
  for (std::size_t i = 1; i < plan.stored.size(); ++i) {
    if (plan.stored[i].n == 0) continue;
    tiers.push_back({{"name", plan.tiers[i].name}, {"arena_bytes", plan.stored[i].n}, {"live_bytes", plan.stored[i].n}});
    if (plan.tiers[i].kind == TierKind::disk) tiers.back()["transfers"] = name(plan.transfers);
  }
  return tiers;
}

json predicted_json(const Plan& plan) {
  json phases = json::array();
  for (const PhasePlan& phase : plan.phases) {
    phases.push_back({{"name", phase.name},
                      {"arena_bytes", phase.arena.n},
                      {"live_bytes", phase.live.n},
                      {"owners", owners_json(phase.owners)}});
  }
  const double rate = plan.update_seconds > 0 ? static_cast<double>(plan.units_per_update) / plan.update_seconds : 0;
  return {{"process_bytes", plan.process.n},
          {"host_bytes", plan.host.n > 0 ? json(plan.host.n) : json(nullptr)},
          {"host_reserve", reserve_json(plan.host_reserve)},
          {"arena_bytes", plan.arena.n},
          {"live_bytes", plan.live.n},
          {"update_seconds", plan.update_seconds},
          {"tokens_per_second", rate},
          {"cost_source", {{"measured", plan.costs_measured}, {"recorded", plan.costs_recorded}, {"bound", plan.costs_bound}}},
          {"reserve", reserve_json(plan.reserve)},
          {"stall_seconds", plan.stall_seconds},
          {"lanes", lanes_json(plan)},
          {"tiers", tiers_json(plan)},
          {"phases", phases}};
}

json units_json(const std::vector<UnitDecision>& units) {
  json list = json::array();
  for (const UnitDecision& unit : units) {
    json row = {{"block", unit.unit}, {"mode", name(unit.mode)}};
    if (unit.pieces) row["pieces"] = true;
    if (unit.joined) row["joined"] = true;
    if (!unit.values.empty()) row["values"] = unit.values;
    list.push_back(std::move(row));
  }
  return list;
}

json paging_json(const Residency& residency) {
  if (!residency.active()) return nullptr;
  json what = json::array({"optimizer state"});
  if (residency.parameters.beyond) what.push_back("parameters");
  if (residency.accumulators.beyond) what.push_back("gradients");
  if (residency.tables.beyond) what.push_back("tables");
  if (residency.inputs > 0) what.push_back("activations");
  return {{"what", what},
          {"page_elements", residency.pages.elements},
          {"slots", residency.pages.slots},
          {"resident_blocks", residency.kept()},
          {"activation_blocks", residency.inputs},
          {"nearest_bytes", residency.near == Residency::kAllNear ? json(nullptr) : json(residency.near.n)},
          {"fetched", residency.by_matrix ? "by matrix" : "by block"}};
}

Residency paging_from(const json& object) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 30, kMostSlots = 64, kAligned = kPageStep;
  if (object.is_null()) return {};
  Residency residency{.pages = {object.at("page_elements").get<std::int64_t>(), object.at("slots").get<std::int64_t>()},
                      .optimizer_state = kBeyond};
  for (const json& what : object.at("what")) {
    residency.parameters.beyond = residency.parameters.beyond || what == "parameters";
    residency.accumulators.beyond = residency.accumulators.beyond || what == "gradients";
    residency.tables.beyond = residency.tables.beyond || what == "tables";
  }
  residency.keep(object.value("resident_blocks", 0));
  residency.inputs = object.value("activation_blocks", 0);
  residency.by_matrix = object.value("fetched", "by block") == "by matrix";
  if (const json near = object.value("nearest_bytes", json()); !near.is_null()) residency.near = Bytes{near.get<std::int64_t>()};
  if (residency.inputs < 0 || residency.kept() < 0 || residency.near.n < 0) {
    throw config_error("E-PLAN-FILE", "plan",
                       fmt::format("{} and {} blocks, {} bytes", residency.inputs, residency.kept(), residency.near.n),
                       "no fewer than none");
  }
  const bool page =
      residency.pages.elements > 0 && residency.pages.elements <= kMostElements && residency.pages.elements % kAligned == 0;
  if (!page || residency.pages.slots < 2 || residency.pages.slots > kMostSlots) {
    throw config_error("E-PLAN-FILE", "plan",
                       fmt::format("{} slots of {} elements", residency.pages.slots, residency.pages.elements),
                       fmt::format("2 to {} slots of a multiple of {} elements", kMostSlots, kAligned));
  }
  return residency;
}

// One row per replay: a node, and the node before which it runs again.
json replays_json(const std::vector<NodeReplay>& replays) {
  json rows = json::array();
  for (const auto& [node, before] : replays) rows.push_back({node.index, before.index});
  return rows;
}

std::vector<NodeReplay> replays_from(const json& rows) {
  std::vector<NodeReplay> replays;
  for (const json& row : rows) replays.push_back({NodeId{row.at(0).get<std::size_t>()}, NodeId{row.at(1).get<std::size_t>()}});
  return replays;
}

// `late` is always empty: no transfer begins later than it could. The key stays for programs that read the format.
json decisions_json(const PlanDecisions& decisions, const std::vector<UnitDecision>& units) {
  return {{"loss_chunks", decisions.loss_chunks},       {"group", decisions.group}, {"recompute", units_json(units)},
          {"replays", replays_json(decisions.replays)}, {"late", json::array()},    {"paging", paging_json(decisions.residency)}};
}

std::string action_of(const Value& value) {
  if (value.persistent()) return "resident";
  if (value.copy_of.valid()) return "fetch";
  return value.clone_of.valid() ? "recompute" : "keep";
}

// The steps of each phase in which a buffer lives; all steps without a buffer.
json ranges_json(const Plan& plan, const Buffer* buffer, Bytes offset) {
  json ranges = json::array();
  for (const Phase phase : plan.timeline.phases()) {
    auto [begin, end] = plan.timeline.of(phase);
    if (buffer != nullptr) begin = std::max(begin, phase == Phase::first ? buffer->first_begin : buffer->begin);
    if (buffer != nullptr) end = std::min(end, buffer->end);
    if (begin >= end) continue;
    ranges.push_back({{"phase", name(plan.graph, phase)}, {"begin", begin}, {"end", end}, {"offset", offset.n}});
  }
  return ranges;
}

// The row of a value; the fields of its producer are null.
json value_json(const Plan& plan, ValueId id, const Tier& tier, Bytes alignment, const std::string& action, json ranges) {
  const Value& value = plan.graph.values[id];
  return {{"id", id.index},
          {"name", value.name},
          {"op", nullptr},
          {"site", nullptr},
          {"model_line", value.name},
          {"role", name(value.role)},
          {"dtype", name(value.type.dtype)},
          {"shape", std::vector(value.type.shape.begin(), value.type.shape.end())},
          {"bytes", align_up(value.bytes(), alignment).n},
          {"tier", tier.name},
          {"alias_of", nullptr},
          {"action", action},
          {"ranges", std::move(ranges)}};
}

// Values first, by id; kernel scratch after them, under ids of its own.
json values_json(const Plan& plan) {
  json list = json::array();
  const StoredLayout stored = stored_layout(plan.graph);
  for (std::size_t i = 0; i < plan.graph.values.size(); ++i) {
    const ValueId id{i};
    const BufferId buffer = plan.lifetimes.buffer_of[id];
    const Value& value = plan.graph.values[id];
    if (value.persistent() && value.tier != 0) {
      const json everywhere = ranges_json(plan, nullptr, stored.offsets[id]);
      list.push_back(value_json(plan, id, plan.tiers[value.tier], kStoredAlignment, "paged", everywhere));
    }
    if (!buffer.valid()) continue;
    const Buffer& where = plan.lifetimes.buffers[buffer];
    const json ranges = ranges_json(plan, &where, plan.offsets[buffer.index]);
    json& row = list.emplace_back(value_json(plan, id, plan.tiers[0], kAlignment, action_of(value), ranges));
    if (where.value != id) row["alias_of"] = where.value.index;
    if (!value.producer.valid()) continue;
    const Node& node = plan.graph.nodes[value.producer];
    row["op"] = node.op->name;
    if (node.site != 0) row["site"] = fmt::format("{:016x}", node.site);
    row["model_line"] = node.line;
  }
  for (std::size_t step = 0; step < plan.lifetimes.scratch.size(); ++step) {
    const BufferId buffer = plan.lifetimes.scratch[step];
    if (!buffer.valid()) continue;
    const Node& node = plan.graph.nodes[plan.timeline.steps[step].node];
    const Buffer& where = plan.lifetimes.buffers[buffer];
    list.push_back({{"id", plan.graph.values.size() + step},
                    {"name", node.line + ".scratch"},
                    {"op", node.op->name},
                    {"site", nullptr},
                    {"model_line", node.line},
                    {"role", "kernel scratch"},
                    {"dtype", "u8"},
                    {"shape", {where.bytes.n}},
                    {"bytes", where.bytes.n},
                    {"tier", plan.tiers[0].name},
                    {"alias_of", nullptr},
                    {"action", "scratch"},
                    {"ranges", ranges_json(plan, &where, plan.offsets[buffer.index])}});
  }
  return list;
}

json bytes_json(const std::vector<Bytes>& bytes) {
  json list = json::array();
  for (const Bytes each : bytes) list.push_back(each.n);
  return list;
}

}  // namespace

json reserve_json(const std::vector<ReserveItem>& items) {
  json list = json::array();
  for (const ReserveItem& item : items) list.push_back({{"name", item.name}, {"bytes", item.bytes.n}, {"source", item.source}});
  return list;
}

// Lanes of the link that leads past the first tier, and of the next link if anything passes both.
json lanes_json(const Plan& plan) {
  json lanes = {{"compute", plan.lanes.kernels}, {"in", plan.lanes.in[0]}, {"out", plan.lanes.out[0]}};
  if (plan.stored[2].n > 0) lanes.update({{"far_in", plan.lanes.in[1]}, {"far_out", plan.lanes.out[1]}});
  return lanes;
}

json timeline_json(const Plan& plan, std::size_t most_points) {
  json phases = json::array();
  for (const PhaseSeries& phase : memory_series(plan, most_points)) {
    json tiers = json::object();
    for (const TierSeries& tier : phase.tiers) {
      json& owners = tiers[tier.tier] = json::object();
      for (const OwnerSeries& owner : tier.owners) owners[owner.owner] = bytes_json(owner.bytes);
    }
    phases.push_back({{"phase", phase.phase}, {"steps", phase.steps}, {"tiers", std::move(tiers)}});
  }
  return phases;
}

json bytes_or_null(const std::optional<Bytes>& bytes) { return bytes ? json(bytes->n) : json(nullptr); }

Remedy new_plan() { return Remedy::of_command("plan CONFIG", {{"command.out", "plan.json"}}); }

json to_json(const Plan& plan, const PlanContext& context, bool values) {
  json object = {{"schema", "plimsoll.plan/1"},
                 {"status", "fits"},
                 {"plan_hash", plan.plan_hash},
                 {"graph_hash", plan.graph_hash},
                 {"config_hash", context.config_hash},
                 {"machine_hash", plan.machine_hash},
                 {"threads", plan.threads},
                 {"budget", budget_json(context.budget)},
                 {"batch",
                  {{"effective", plan.effective_batch},
                   {"micro", plan.decisions.micro_batch},
                   {"accumulation", plan.decisions.accumulation},
                   {"units_per_update", plan.units_per_update}}},
                 {"precision", precision_json(context.precision)},
                 {"decisions", decisions_json(plan.decisions, plan.units)},
                 {"predicted", predicted_json(plan)},
                 {"bounds",
                  {{"floor_bound_bytes", plan.floor_bound.n},
                   {"floor_bytes", plan.floor.n},
                   {"load_bytes", plan.load.n},
                   {"knee_bytes", plan.knee.n},
                   {"ceiling_bytes", plan.ceiling.n},
                   {"update_seconds", plan.bound_seconds.seconds()},
                   {"lanes",
                    {{"compute", plan.bound_seconds.compute},
                     {"again", plan.bound_seconds.again},
                     {"waits", plan.bound_seconds.waits},
                     {"transfers", plan.bound_seconds.transfers}}}}},
                 {"planning_seconds", context.planning_seconds},
                 {"levers", json::array()},
                 {"infeasible", nullptr},
                 {"timeline", timeline_json(plan, kMostPoints)},
                 {"record", to_json(record_of(plan))}};
  if (plan.ragged) object["batch"]["rows"] = plan.ragged->rows;
  object["batch"]["stat_batch"] = context.stat_batch > 0 ? json(context.stat_batch) : json();
  if (context.pixels) object["image"] = {{"mean", context.pixels->mean}, {"std", context.pixels->std}};
  if (values) object["values"] = values_json(plan);
  return object;
}

json to_json(const Infeasible& infeasible, const PlanContext& context, int threads) {
  return {{"schema", "plimsoll.plan/1"},
          {"status", "infeasible"},
          {"plan_hash", nullptr},
          {"graph_hash", nullptr},
          {"config_hash", context.config_hash},
          {"machine_hash", nullptr},
          {"threads", threads},
          {"budget", budget_json(context.budget)},
          {"batch", nullptr},
          {"precision", precision_json(context.precision)},
          {"decisions", nullptr},
          {"predicted", nullptr},
          {"bounds",
           {{"floor_bound_bytes", infeasible.floor_bound.n},
            {"floor_bytes", infeasible.floor.n},
            {"load_bytes", nullptr},
            {"update_seconds", nullptr}}},
          {"planning_seconds", context.planning_seconds},
          {"levers", json::array()},
          {"infeasible",
           {{"code", "E-PLAN-FIT"},
            {"short_bytes", (infeasible.floor - infeasible.budget).n},
            {"phase", infeasible.phase},
            {"owners", owners_list(infeasible.owners)},
            {"remedies", json::array()}}}};
}

json to_json(const std::vector<FrontierPoint>& frontier) {
  json list = json::array();
  for (std::size_t i = 0; i < frontier.size(); ++i) {
    const FrontierPoint& point = frontier[i];
    json saved;
    if (i + 1 < frontier.size()) {
      const double more = static_cast<double>((frontier[i + 1].process - point.process).n) / static_cast<double>(kMiB.n);
      saved = (point.update_seconds - frontier[i + 1].update_seconds) / more;
    }
    list.push_back({{"process_bytes", point.process.n},
                    {"arena_bytes", point.arena.n},
                    {"live_bytes", point.live.n},
                    {"update_seconds", point.update_seconds},
                    {"tokens_per_second", point.units_per_second},
                    {"micro_batch", point.decisions.micro_batch},
                    {"accumulation", point.decisions.accumulation},
                    {"loss_chunks", point.decisions.loss_chunks},
                    {"seconds_per_mib", saved},
                    {"decisions", decisions_json(point.decisions, point.units)}});
  }
  return list;
}

namespace {

// Absent in a plan without answers.
AnswerDecision answers_from(const json& record) {
  constexpr std::int64_t kMostSlots = 1 << 24, kMostHeap = std::int64_t{1} << 32;
  const json object = record.value("answers", json());
  if (object.is_null()) return {};
  const AnswerDecision answers{object.at("slots"), object.at("chunk"), Bytes{object.at("heap_bytes")}};
  const bool possible = answers.slots > 0 && answers.slots <= kMostSlots && answers.chunk > 0 && answers.chunk <= answers.slots &&
                        answers.heap.n >= 0 && answers.heap.n <= kMostHeap;
  if (possible) return answers;
  throw config_error(
      "E-PLAN-FILE", "plan",
      fmt::format("answers have {} slots, chunks of {} and {} bytes", answers.slots, answers.chunk, answers.heap.n),
      fmt::format("up to {} slots and {} bytes", kMostSlots, kMostHeap));
}

}  // namespace

PlanRecord record_of(const Plan& plan) { return {plan.decisions, plan.offsets, plan.graph_hash, plan.plan_hash}; }

json to_json(const PlanRecord& record) {
  json offsets = json::array();
  for (const Bytes offset : record.offsets) offsets.push_back(offset.n);
  json object = {{"micro_batch", record.decisions.micro_batch},
                 {"accumulation", record.decisions.accumulation},
                 {"group", record.decisions.group},
                 {"loss_chunks", record.decisions.loss_chunks},
                 {"replays", replays_json(record.decisions.replays)},
                 {"paging", paging_json(record.decisions.residency)},
                 {"offsets", offsets},
                 {"graph_hash", record.graph_hash},
                 {"plan_hash", record.plan_hash}};
  if (record.decisions.zero > 1) object["zero"] = record.decisions.zero;
  if (const AnswerDecision& answers = record.decisions.answers; answers.active()) {
    object["answers"] = {{"slots", answers.slots}, {"chunk", answers.chunk}, {"heap_bytes", answers.heap.n}};
  }
  return object;
}

PlanRecord record_from_json(const json& object) {
  constexpr std::int64_t kMost = 1 << 24, kFarthest = std::int64_t{1} << 60;  // far below overflow; larger than any memory
  const auto count = [&](const char* key) {
    const std::int64_t value = object.at(key).get<std::int64_t>();
    if (value >= 1 && value <= kMost) return value;
    throw config_error("E-PLAN-FILE", "plan", fmt::format("{} is {}", key, value),
                       fmt::format("a whole number from 1 to {}", kMost));
  };
  // Older programs stored decisions for blocks, and transfers that begin later.
  if (object.contains("blocks") || (object.contains("late") && !object.at("late").empty())) {
    throw config_error("E-PLAN-FILE", "plan", "an older program made this plan, with decisions that this one does not take",
                       "a plan file of this program", {new_plan()});
  }
  try {
    PlanRecord record;
    record.decisions.micro_batch = count("micro_batch");
    record.decisions.accumulation = count("accumulation");
    record.decisions.group = count("group");
    if (record.decisions.accumulation % record.decisions.group != 0 || record.decisions.group > kMostGroup) {
      throw config_error("E-PLAN-FILE", "plan", fmt::format("group is {}", record.decisions.group),
                         fmt::format("a divisor of the accumulation, {}, up to {}", record.decisions.accumulation, kMostGroup));
    }
    record.decisions.loss_chunks = static_cast<int>(count("loss_chunks"));
    record.decisions.replays = replays_from(object.at("replays"));
    record.decisions.residency = paging_from(object.at("paging"));
    record.decisions.answers = answers_from(object);
    record.decisions.zero = object.contains("zero") ? count("zero") : 1;
    if (record.decisions.zero > kLastStage) {
      throw config_error("E-PLAN-FILE", "plan", fmt::format("zero is {}", record.decisions.zero),
                         fmt::format("a stage from 1 to {}", kLastStage));
    }
    for (const std::int64_t offset : object.at("offsets").get<std::vector<std::int64_t>>()) {
      if (offset < 0 || offset > kFarthest) {
        throw config_error("E-PLAN-FILE", "plan", fmt::format("an offset is {}", offset), fmt::format("0 to {}", kFarthest));
      }
      record.offsets.push_back(Bytes{offset});
    }
    record.graph_hash = object.at("graph_hash").get<std::string>();
    record.plan_hash = object.at("plan_hash").get<std::string>();
    return record;
  } catch (const json::exception& error) {
    throw config_error("E-PLAN-FILE", "plan", fmt::format("it is not a plan: {}", error.what()), "a plan file", {new_plan()});
  }
}

}  // namespace plimsoll
