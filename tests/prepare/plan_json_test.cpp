// The part of a plan that a replay needs, to JSON and back; broken records are refused.
#include "prepare/plan_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/expect_error.h"
#include "formats/scratch_folder.h"
#include "plan/small_models.h"
#include "prepare/plan_file.h"

namespace plimsoll {
namespace {

using nlohmann::json;

PlanRecord example() {
  PlanRecord record;
  record.decisions = {.micro_batch = 3,
                      .accumulation = 8,
                      .group = 4,
                      .loss_chunks = 5,
                      .residency = {.pages = {kPageStep * 2, 3},
                                    .optimizer_state = kBeyond,
                                    .parameters = {.beyond = true, .kept = 2},
                                    .accumulators = {.beyond = true, .kept = 2},
                                    .tables = kBeyond,
                                    .inputs = 6,
                                    .by_matrix = true,
                                    .near = kMiB},
                      .replays = {{NodeId{4}, NodeId{9}}, {NodeId{5}, NodeId{9}}}};
  record.offsets = {Bytes{0}, Bytes{512}, Bytes{1 << 20}};
  record.graph_hash = "graph";
  record.plan_hash = "plan";
  return record;
}

void expect_equal(const PlanRecord& a, const PlanRecord& b) {
  EXPECT_EQ(a.decisions.micro_batch, b.decisions.micro_batch);
  EXPECT_EQ(a.decisions.accumulation, b.decisions.accumulation);
  EXPECT_EQ(a.decisions.group, b.decisions.group);
  EXPECT_EQ(a.decisions.loss_chunks, b.decisions.loss_chunks);
  EXPECT_EQ(a.decisions.residency, b.decisions.residency);
  EXPECT_EQ(a.decisions.replays, b.decisions.replays);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.graph_hash, b.graph_hash);
  EXPECT_EQ(a.plan_hash, b.plan_hash);
}

PlanRecord read_back(const PlanRecord& record) { return record_from_json(json::parse(to_json(record).dump())); }

TEST(PlanJson, ARecordComesBackEqual) { expect_equal(read_back(example()), example()); }

TEST(PlanJson, EveryResidencyComesBack) {
  for (const Residency& residency : {Residency{}, Residency{.pages = {kPageStep, 2}, .optimizer_state = kBeyond},
                                     Residency{.pages = {kPageStep, 4}, .optimizer_state = {.beyond = true, .kept = 1}},
                                     Residency{.pages = {kPageStep, 4}, .optimizer_state = kBeyond, .parameters = kBeyond},
                                     Residency{.pages = {kPageStep, 4}, .optimizer_state = kBeyond, .inputs = 1},
                                     Residency{.pages = {kPageStep, 4}, .optimizer_state = kBeyond, .near = Bytes{0}}}) {
    PlanRecord record = example();
    record.decisions.residency = residency;
    EXPECT_EQ(read_back(record).decisions.residency, residency) << to_json(record).at("paging");
  }
}

TEST(PlanJson, ARecordOfAPlanHasItsDecisionsAndOffsets) {
  const Config config = config_for(kShapes[0], 4);
  const Plan plan = plan_with(config, 2, {BlockMode::recompute}, 1);
  const PlanRecord record = record_of(plan);
  ASSERT_FALSE(record.decisions.replays.empty());
  EXPECT_EQ(record.decisions.micro_batch, 2);
  EXPECT_EQ(record.offsets, plan.offsets);
  EXPECT_EQ(record.graph_hash, plan.graph_hash);
  EXPECT_EQ(record.plan_hash, plan.plan_hash);
  expect_equal(read_back(record), record);
}

// One field of a good record, replaced.
struct Broken {
  const char* pointer;
  json value;
};

TEST(PlanJson, ABrokenRecordIsRefused) {
  const std::int64_t too_far = (std::int64_t{1} << 60) + 1;
  const Broken all[] = {{"/micro_batch", "three"},
                        {"/micro_batch", 0},
                        {"/micro_batch", -3},
                        {"/accumulation", nullptr},
                        {"/accumulation", (1 << 24) + 1},
                        {"/group", 3},
                        {"/loss_chunks", json::array()},
                        {"/replays", 7},
                        {"/replays/0", json::array({1})},
                        {"/replays/0/0", "four"},
                        {"/offsets", json::object({{"a", "b"}})},
                        {"/offsets/1", "far"},
                        {"/offsets/1", -512},
                        {"/offsets/1", too_far},
                        {"/graph_hash", 5},
                        {"/plan_hash", nullptr},
                        {"/paging", "disk"},
                        {"/paging/page_elements", 0},
                        {"/paging/page_elements", kPageStep + 1},
                        {"/paging/page_elements", -kPageStep},
                        {"/paging/page_elements", kPageStep << 20},
                        {"/paging/slots", 1},
                        {"/paging/slots", 65},
                        {"/paging/slots", "two"},
                        {"/paging/resident_blocks", -1},
                        {"/paging/activation_blocks", -1},
                        {"/paging/nearest_bytes", -1},
                        {"/paging/nearest_bytes", "all"},
                        {"/blocks", json::array()},
                        {"/late", json::array({1})}};
  for (const Broken& broken : all) {
    json object = to_json(example());
    object[json::json_pointer(broken.pointer)] = broken.value;
    SCOPED_TRACE(std::string(broken.pointer) + " = " + broken.value.dump());
    EXPECT_ERROR(record_from_json(object), "E-PLAN-FILE", "plan");
  }
}

TEST(PlanJson, EachFieldIsNeeded) {
  const json whole = to_json(example());
  for (const auto& [key, value] : whole.items()) {
    json object = whole;
    object.erase(key);
    EXPECT_ERROR(record_from_json(object), "E-PLAN-FILE", key);
  }
  for (const json& nothing : {json(), json(3), json::array()}) EXPECT_ERROR(record_from_json(nothing), "E-PLAN-FILE", "plan");
}

TEST(PlanJson, APlanHoldsItsRecordAndItsBytes) {
  const Plan plan = plan_with(config_for(kShapes[0], 4), 2, {BlockMode::keep}, 1);
  const json object = to_json(plan, {.budget = {kGiB, {}, {}}, .config_hash = "config"}, /*values=*/true);
  EXPECT_EQ(object.at("schema"), "plimsoll.plan/1");
  EXPECT_EQ(object.at("status"), "fits");
  EXPECT_EQ(object.at("config_hash"), "config");
  EXPECT_EQ(object.at("/budget/memory"_json_pointer), kGiB.n);
  EXPECT_EQ(object.at("/budget/disk"_json_pointer), nullptr);
  EXPECT_EQ(object.at("/predicted/process_bytes"_json_pointer), plan.process.n);
  EXPECT_EQ(object.at("/predicted/arena_bytes"_json_pointer), plan.arena.n);
  EXPECT_EQ(object.at("record"), to_json(record_of(plan)));
  EXPECT_FALSE(to_json(plan, {}, /*values=*/false).contains("values"));
  for (const json& phase : object.at("/predicted/phases"_json_pointer)) {
    std::int64_t owners = 0;
    for (const json& bytes : phase.at("owners")) owners += bytes.get<std::int64_t>();
    EXPECT_EQ(owners, phase.at("live_bytes")) << phase.at("name");
  }
}

TEST(PlanJson, ARefusalTellsTheMissingBytes) {
  const Infeasible infeasible{.budget = kMiB * 100, .floor = kMiB * 130, .owners = {{"activation", kMiB, ""}}};
  const json object = to_json(infeasible, {}, /*threads=*/2);
  EXPECT_EQ(object.at("status"), "infeasible");
  EXPECT_EQ(object.at("/infeasible/short_bytes"_json_pointer), kMiB.n * 30);
  EXPECT_EQ(object.at("/bounds/floor_bytes"_json_pointer), kMiB.n * 130);
  EXPECT_EQ(object.at("/infeasible/owners/0/name"_json_pointer), "activation");
  EXPECT_EQ(object.at("/infeasible/owners/0/model_line"_json_pointer), nullptr);
  EXPECT_EQ(object.at("plan_hash"), nullptr);
}

TEST(PlanJson, AFrontierTellsTheSecondsThatAMebibyteSaves) {
  std::vector<FrontierPoint> points(2);
  points.front().process = kMiB * 10;
  points.front().update_seconds = 3;
  points.back().process = kMiB * 14;
  points.back().update_seconds = 1;
  const json list = to_json(points);
  EXPECT_DOUBLE_EQ(list.at(0).at("seconds_per_mib").get<double>(), 0.5);
  EXPECT_EQ(list.at(1).at("seconds_per_mib"), nullptr);
}

TEST(PlanFile, ReadsPlansAlone) {
  const ScratchFolder folder;
  const auto read = [&](const char* text) {
    write_raw(folder / "plan.json", text);
    return read_plan((folder / "plan.json").string());
  };
  EXPECT_EQ(read(R"({"schema": "plimsoll.plan/1", "x": 1})").at("x"), 1);
  EXPECT_ERROR(read(R"({"schema": "plimsoll.run/1"})"), "E-PLAN-FILE", "it is not a plan");
  EXPECT_ERROR(read("[]"), "E-PLAN-FILE", "it is not a plan");
  EXPECT_ERROR(read("{"), "E-PLAN-FILE", "plan.json");
  EXPECT_ERROR(read_plan((folder / "none.json").string()), "E-PLAN-FILE", "none.json");
}

}  // namespace
}  // namespace plimsoll
