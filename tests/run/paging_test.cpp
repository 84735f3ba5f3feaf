// Optimizer state on the disk: the same bits as in memory, exactly the planned bytes on both tiers, and a named error for each
// failure of a disk.

#include <fcntl.h>
#include <unistd.h>

#include <fmt/core.h>

#include <array>
#include <ostream>
#include <set>
#include <thread>

#include "device/refuse_io_uring.h"
#include "formats/expect_error.h"
#include "formats/file.h"
#include "ops/attributes.h"
#include "run/session.h"

namespace plimsoll {

void PrintTo(TransferEngine engine, std::ostream* out) { *out << name(engine); }

namespace {

static_assert(kPageStep % ops::kNormTile == 0, "a page holds whole tiles of norms");

constexpr int kUpdates = 4;
const ModelShape kShape{2, 48, 3, 11, 301};

Config paged_config(std::int64_t effective, const ModelShape& shape = kShape) {
  Config config = config_for(shape, effective, 0.1);
  config.memory.disk = DiskBudget{std::filesystem::temp_directory_path(), kGiB};
  return config;
}

Plan paged(const Config& config, std::int64_t micro, const Residency& residency, const TokenData& data) {
  return plan_with(config, micro, {BlockMode::keep}, 1, data.facts(), residency);
}

// Runs with both transfer engines. If the kernel refuses io_uring, its cases are skipped.
class PagingBy : public testing::TestWithParam<TransferEngine> {
 protected:
  void SetUp() override {
    const std::string refusal = GetParam() == TransferEngine::io_uring ? io_uring_refusal() : "";
    if (!refusal.empty()) GTEST_SKIP() << "no io_uring here: " << refusal;
  }
  Plan paged(const Config& config, std::int64_t micro, const Residency& residency, const TokenData& data) const {
    Plan plan = plimsoll::paged(config, micro, residency, data);
    plan.transfers = GetParam();
    return plan;
  }
};
INSTANTIATE_TEST_SUITE_P(Engine, PagingBy, testing::Values(TransferEngine::threads, TransferEngine::io_uring),
                         [](const auto& info) { return std::string(name(info.param)); });

void audit(const Config& config, const Plan& plan, const TokenData& data) {
  Session session(config, plan, data.files, Watch::audit);
  session.run_all_phases(data.files);
  EXPECT_EQ(difference(plan, session.audit().phases()), "");
  if (session.pages() == nullptr) return;
  EXPECT_EQ(session.pages()->height(), plan.stored[1]);
  EXPECT_EQ(session.pages()->written(), plan.stored[1]);
}

TEST_P(PagingBy, SameBitsAndExactBytesForEveryPage) {
  const TokenData data(kShape.vocab, 400, 90);
  for (const auto& [micro, state] : {std::pair{1, DType::f32}, std::pair{4, DType::f32}, std::pair{2, DType::bf16}}) {
    SCOPED_TRACE(name(state));
    Config config = paged_config(4);
    config.precision.optimizer_state = state;
    const Outcome resident = Session(config, paged(config, micro, {}, data), data.files).train(kUpdates);
    for (const Residency& residency :
         {Residency{.pages = {1024, 2}, .optimizer_state = kBeyond}, Residency{.pages = {1024, 4}, .optimizer_state = kBeyond},
          Residency{.pages = {3072, 3}, .optimizer_state = kBeyond}, Residency{.pages = {1 << 20, 4}, .optimizer_state = kBeyond},
          Residency{.pages = {1024, 4}, .optimizer_state = {.beyond = true, .kept = 1}}}) {
      SCOPED_TRACE(residency.pages.elements);
      const Plan plan = paged(config, micro, residency, data);
      EXPECT_GT(plan.stored[1].n, 0);
      EXPECT_EQ(Session(config, plan, data.files).train(kUpdates), resident);
      audit(config, plan, data);
    }
  }
}

void expect_sound_programs(const Config& config, const DataFacts& facts) {
  constexpr Residency kPagings[] = {
      {.pages = {kPageStep, 4}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond},
      {.pages = {1024, 2},
       .optimizer_state = kBeyond,
       .parameters = {.beyond = true, .kept = 1},
       .accumulators = {.beyond = true, .kept = 1}},
      {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .accumulators = kBeyond},
      {.pages = {1 << 20, 4},
       .optimizer_state = kBeyond,
       .parameters = kBeyond,
       .accumulators = kBeyond,
       .tables = kBeyond,
       .by_matrix = true}};
  for (const std::int64_t group : {1, 2, 4}) {
    for (const Residency& residency : kPagings) {
      SCOPED_TRACE(fmt::format("group {} page {}", group, residency.pages.elements));
      const Plan plan = plan_with(config, 1, {BlockMode::recompute}, 1, facts, residency, group);
      EXPECT_NO_THROW(verify(lower(plan), plan.graph));
    }
  }
}

// A store brings a gradient to the disk before an update reads it, although a stream reads ahead. The verifier of programs tracks
// the copies under way.
TEST(Paging, NoCopyBeginsOfWhatIsBeingWritten) {
  const ModelShape shape{3, 128, 4, 11, 301};
  const TokenData data(shape.vocab, 400, 90);
  for (const OptimizerKind kind : {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lion, OptimizerKind::adafactor}) {
    for (const double clip : {0.0, 1.0}) {
      SCOPED_TRACE(fmt::format("optimizer {} clip {}", static_cast<int>(kind), clip));
      Config config = paged_config(4, shape);
      config.optimizer.kind = kind;
      config.optimizer.momentum = kind == OptimizerKind::sgd ? 0.9 : 0;
      config.train.gradient_clip = clip;
      expect_sound_programs(config, data.facts());
    }
  }
}

// Parameters and accumulators of the blocks as well: in every mode of the blocks, with and without a window of several
// micro-steps, with the norm at the end (clipping) and with updates within the backward pass.
TEST_P(PagingBy, BlocksStreamInEveryMode) {
  constexpr int kFewUpdates = 2;
  const ModelShape shape{3, 128, 4, 11, 301};
  const TokenData data(shape.vocab, 400, 90);
  std::size_t round = GetParam() == TransferEngine::threads ? 0 : 3;
  for (const std::int64_t micro : {1, 4}) {
    for (const double clip : {0.0, 1.0}) {
      Config config = paged_config(4, shape);
      config.precision.optimizer_state = clip > 0 ? DType::bf16 : DType::f32;
      config.train.gradient_clip = clip;
      const Outcome resident = Session(config, paged(config, micro, {}, data), data.files).train(kFewUpdates);
      for (const BlockMode mode : {BlockMode::keep, BlockMode::cheap, BlockMode::recompute, BlockMode::pieces}) {
        const Residency& residency = kStreamedBlocks[round++ % std::size(kStreamedBlocks)];
        SCOPED_TRACE(fmt::format("micro {} clip {} {} page {} parameters {} accumulators {} narrow {}", micro, clip, name(mode),
                                 residency.pages.elements, residency.parameters.beyond, residency.accumulators.beyond,
                                 residency.by_matrix));
        Plan plan = plan_with(config, micro, {mode}, 1, data.facts(), residency);
        plan.transfers = GetParam();
        verify(plan.graph);
        EXPECT_EQ(Session(config, plan, data.files).train(kFewUpdates), resident);
        audit(config, plan, data);
      }
      ++round;  // so that each mode meets each paging
    }
  }
}

// The embedding and the head, which share their weights, in ranges: the last one is shorter, and ends within a page. In every
// number of chunks of the loss, with the ranges larger and smaller than a page, and in the evaluation as well.
TEST_P(PagingBy, TablesStreamInRanges) {
  constexpr int kFewUpdates = 2;
  const ModelShape shape{2, 64, 2, 9, 9001};
  const TokenData data(shape.vocab, 200, 60);
  const Residency pagings[] = {{.pages = {kPageStep, 2}, .optimizer_state = kBeyond, .tables = kBeyond},
                               {.pages = {kPageStep, 4},
                                .optimizer_state = kBeyond,
                                .parameters = kBeyond,
                                .accumulators = kBeyond,
                                .tables = kBeyond,
                                .by_matrix = true},
                               {.pages = {1 << 18, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .tables = kBeyond}};
  std::size_t round = 0;
  for (const std::int64_t micro : {1, 4}) {
    for (const double clip : {0.0, 1.0}) {
      Config config = paged_config(4, shape);
      config.train.gradient_clip = clip;
      const Outcome resident = Session(config, paged(config, micro, {}, data), data.files).train(kFewUpdates);
      for (const int chunks : {1, 3, 100}) {
        const Residency& residency = pagings[round++ % std::size(pagings)];
        SCOPED_TRACE(fmt::format("micro {} clip {} chunks {} page {} slots {}", micro, clip, chunks, residency.pages.elements,
                                 residency.pages.slots));
        Plan plan = plan_with(config, micro, {BlockMode::cheap}, chunks, data.facts(), residency);
        plan.transfers = GetParam();
        verify(plan.graph);
        for (const char* table : {"wte.weight", "wte.weight.grad"}) EXPECT_EQ(plan.graph.values[plan.graph.find(table)].tier, 1);
        EXPECT_EQ(Session(config, plan, data.files).train(kFewUpdates), resident);
        audit(config, plan, data);
      }
      ++round;
    }
  }
}

// The inputs of some or all blocks go out after the forward pass and come in before the backward pass.
TEST_P(PagingBy, ActivationsRestOnTheDiskBetweenThePasses) {
  constexpr int kFewUpdates = 2;
  const ModelShape shape{4, 64, 4, 24, 301};
  const TokenData data(shape.vocab, 600, 120);
  std::size_t round = 0;
  for (const std::int64_t micro : {1, 4}) {
    const Config config = paged_config(4, shape);
    const Outcome resident = Session(config, paged(config, micro, {}, data), data.files).train(kFewUpdates);
    for (const int count : {1, 2, 4, 9}) {
      const BlockMode mode = std::array{BlockMode::recompute, BlockMode::keep, BlockMode::cheap, BlockMode::pieces}[round++ % 4];
      Residency residency{.pages = {kPageStep, 2},
                          .optimizer_state = kBeyond,
                          .parameters = {.beyond = round % 2 == 0},
                          .accumulators = {.beyond = round % 4 > 1}};
      residency.inputs = count;
      SCOPED_TRACE(fmt::format("micro {} {} blocks {}", micro, count, name(mode)));
      Plan plan = plan_with(config, micro, {mode}, 1, data.facts(), residency);
      plan.transfers = GetParam();
      verify(plan.graph);
      std::size_t homes = 0;
      for (const Value& value : plan.graph.values) homes += value.persistent() && value.role == Role::activation ? 1 : 0;
      EXPECT_EQ(homes, static_cast<std::size_t>(std::min(count, 4)));
      EXPECT_EQ(Session(config, plan, data.files).train(kFewUpdates), resident);
      audit(config, plan, data);
    }
  }
}

// The first blocks do so and recompute the rest. The others keep everything, or the expensive values.
TEST_P(PagingBy, ActivationsRestOnTheDiskOfSomeBlocksBesideOthersThatKeep) {
  constexpr int kFewUpdates = 2;
  const ModelShape shape{4, 64, 4, 24, 301};
  const TokenData data(shape.vocab, 600, 120);
  const Config config = paged_config(4, shape);
  const Outcome resident = Session(config, paged(config, 2, {}, data), data.files).train(kFewUpdates);
  for (const BlockMode later : {BlockMode::keep, BlockMode::cheap}) {
    Residency residency{.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond};
    residency.inputs = 2;
    Plan plan = plan_with(config, 2, {BlockMode::recompute, BlockMode::recompute, later, later}, 1, data.facts(), residency);
    plan.transfers = GetParam();
    EXPECT_EQ(Session(config, plan, data.files).train(kFewUpdates), resident);
    audit(config, plan, data);
  }
}

TEST(Paging, ActivationsGoWhereTheRequestSays) {
  Config config = paged_config(4, {4, 64, 4, 64, 301});
  const auto most_of = [&](RestPolicy policy) {
    config.plan.activations = policy;
    Planner planner(config);
    std::set<int> found;
    for (const FrontierPoint& point : planner.space.frontier(40)) found.insert(point.decisions.residency.inputs);
    return found;
  };
  EXPECT_EQ(most_of(RestPolicy::memory), std::set{0});
  const std::set<int> away = most_of(RestPolicy::disk);
  EXPECT_FALSE(away.contains(0));
  EXPECT_GT(away.size(), 1U) << "of as many blocks as possible and of some of them";
  config.plan.recompute = RecomputePolicy::none;
  EXPECT_ERROR(Planner{config}, "E-PLAN-ACTIVATIONS", "plan.activations=auto");
}

// A table stays if it is too small for a gain, or if its rows do not fit pages.
TEST(Paging, TablesAreWhatIsReadInRangesAndWorthIt) {
  const auto tier = [](const ModelShape& shape, const char* value) {
    const Graph graph = build_training_graph(paged_config(4, shape), kTrainAlone, 2).graph;
    const Graph paged = apply_paging(
        graph, find_units(graph),
        {.pages = {1 << 18, 4}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond, .tables = kBeyond});
    return paged.values[paged.find(value)].tier;
  };
  EXPECT_EQ(tier({2, 64, 2, 9, 8192}, "wte.weight"), 1);
  EXPECT_EQ(tier({2, 64, 2, 9, 8192}, "wte.weight.grad"), 1);
  EXPECT_EQ(tier({2, 64, 2, 9, 8192}, "wpe.weight"), 0);
  EXPECT_EQ(tier({2, 64, 2, 9, 8191}, "wte.weight"), 0);
  EXPECT_EQ(tier({2, 48, 2, 9, 9000}, "wte.weight"), 0);
}

TEST(Paging, StateOfNoMoreThanADiskBlockStays) {
  const Graph graph = build_training_graph(paged_config(4, {2, 256, 4, 5, 301}), kTrainAlone, 2).graph;
  const Graph paged = apply_paging(graph, find_units(graph), {.pages = {kPageStep, 4}, .optimizer_state = kBeyond});
  const auto tier = [&](const char* value) { return paged.values[paged.find(value)].tier; };
  for (const char* stays : {"h.0.ln_1.weight.m", "h.1.mlp.c_fc.bias.v"}) EXPECT_EQ(tier(stays), 0) << stays;
  for (const char* leaves : {"wpe.weight.m", "h.1.attn.c_proj.weight.v"}) EXPECT_EQ(tier(leaves), 1) << leaves;
}

TEST(Paging, SomeBlocksKeepTheirState) {
  const Graph graph = build_training_graph(paged_config(4, {4, 256, 4, 5, 301}), kTrainAlone, 2).graph;
  const Graph paged =
      apply_paging(graph, find_units(graph), {.pages = {kPageStep, 4}, .optimizer_state = {.beyond = true, .kept = 2}});
  for (int block = 0; block < 4; ++block) {
    const std::string line = "h." + std::to_string(block);
    for (const char* state : {".attn.c_attn.weight.m", ".mlp.c_fc.weight.v"}) {
      EXPECT_EQ(paged.values[paged.find(line + state)].tier, block % 2 == 0 ? 1 : 0) << line << state;
    }
    EXPECT_EQ(paged.values[paged.find(line + ".mlp.c_fc.weight")].tier, 0);
  }
  EXPECT_EQ(paged.values[paged.find("wte.weight.m")].tier, 1) << "of no block";
}

TEST(Paging, BlocksOwnWhatTheyAloneReadAndIsWorthATransfer) {
  const Graph graph = build_training_graph(paged_config(4, {3, 128, 4, 11, 301}), kTrainAlone, 2).graph;
  const std::vector<Unit> units = find_units(graph);
  const PerValue<int> block_of = units_of_values(graph, units);
  for (int block = 0; block < 3; ++block) {
    const std::string line = "h." + std::to_string(block);
    for (const char* large : {".attn.c_attn.weight", ".attn.c_proj.weight", ".mlp.c_fc.weight", ".mlp.c_proj.weight"}) {
      EXPECT_EQ(block_of[graph.find(line + large)], block) << large;
      EXPECT_EQ(block_of[graph.find(line + large + ".grad")], block) << large;
      EXPECT_EQ(block_of[graph.find(line + large + ".m")], -1) << "state streams, whosever it is";
    }
    for (const char* small : {".ln_1.weight", ".mlp.c_proj.bias"}) EXPECT_EQ(block_of[graph.find(line + small)], -1) << small;
  }
  for (const char* outside : {"wte.weight", "wpe.weight", "ln_f.weight", "wte.weight.grad"}) {
    ASSERT_TRUE(graph.find(outside).valid()) << outside;
    EXPECT_EQ(block_of[graph.find(outside)], -1) << outside;
  }
}

// A weight that the first node reads outside of all blocks, and then one of them.
TEST(Paging, WhatIsReadOutsideAsWellBelongsToNoBlock) {
  Graph graph = build_training_graph(paged_config(4, {3, 128, 4, 11, 301}), kTrainAlone, 2).graph;
  std::vector<Unit> units = find_units(graph);
  const ValueId weight = graph.find("h.0.attn.c_attn.weight");
  ASSERT_EQ(units_of_values(graph, units)[weight], 0);
  const auto reads = [&](NodeId id) {
    const std::vector<ValueId>& inputs = graph.nodes[id].inputs;
    return std::find(inputs.begin(), inputs.end(), weight) != inputs.end();
  };
  // The reader leaves its block, and a later node of the block reads the weight as well.
  const NodeId reader = *std::find_if(units[0].nodes.begin(), units[0].nodes.end(), reads);
  graph.nodes[units[0].nodes.back()].inputs.push_back(weight);
  std::erase(units[0].nodes, reader);
  EXPECT_EQ(units_of_values(graph, units)[weight], -1);
}

// Each change is a possible fault of the lowering.
TEST(Paging, VerifyRefusesBrokenCopies) {
  const TokenData data(kShape.vocab, 400, 90);
  const Plan plan = paged(paged_config(4), 1, {.pages = {1024, 2}, .optimizer_state = kBeyond}, data);
  const auto refused = [&](const char* words, const std::function<bool(std::vector<Instruction>&, std::size_t)>& change) {
    Program program = lower(plan);
    ASSERT_NO_THROW(verify(program, plan.graph));
    bool changed = false;
    for (std::size_t i = 0; !changed && i < program.update.size(); ++i) changed = change(program.update, i);
    ASSERT_TRUE(changed) << words;
    try {
      verify(program, plan.graph);
      ADD_FAILURE() << "accepted; expected: " << words;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  const auto erase = [](std::vector<Instruction>& all, std::size_t i) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(i));
    return true;
  };
  refused("nothing has waited for", [&](auto& all, std::size_t i) {  // the wait for what comes in
    return std::holds_alternative<WaitCopy>(all[i]) && erase(all, i);
  });
  refused("nothing has waited for", [&](auto& all, std::size_t i) {  // the wait for what goes out
    const bool after_start = i > 0 && std::holds_alternative<StartCopy>(all[i - 1]);
    return after_start && std::holds_alternative<WaitCopy>(all[i]) && std::get<StartCopy>(all[i - 1]).to.tier == 1 &&
           std::get<WaitCopy>(all[i]).event % 2 == 1 && erase(all, i);
  });
  refused("not where kernels run", [](auto& all, std::size_t i) {
    auto* kernel = std::get_if<RunKernel>(&all[i]);
    return kernel != nullptr && !kernel->range.whole() && (kernel->inputs[1].tier = 1) == 1;
  });
  refused("has not begun", [](auto& all, std::size_t i) {
    auto* wait = std::get_if<WaitCopy>(&all[i]);
    return wait != nullptr && (wait->event = 77) == 77;
  });
  refused("is not on tier 2", [](auto& all, std::size_t i) {
    auto* wait = std::get_if<WaitCopy>(&all[i]);
    return wait != nullptr && (wait->tier = 2) == 2;
  });
  refused("unequal sizes", [](auto& all, std::size_t i) {
    auto* copy = std::get_if<StartCopy>(&all[i]);
    if (copy == nullptr) return false;
    copy->to.bytes = copy->to.bytes - kAlignment;
    return true;
  });
  refused("leaves tier 1", [&](auto& all, std::size_t i) {
    auto* copy = std::get_if<StartCopy>(&all[i]);
    if (copy == nullptr || copy->from.tier == 0) return false;
    copy->from.offset = plan.stored[1];
    return true;
  });
  refused("before copy", [&](auto& all, std::size_t i) {  // the last wait
    const auto waits = [](const Instruction& one) { return std::holds_alternative<WaitCopy>(one); };
    return waits(all[i]) && std::none_of(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end(), waits) && erase(all, i);
  });
}

TEST(Paging, MomentumStreamsAsWell) {
  const TokenData data(kShape.vocab, 400, 90);
  Config config = paged_config(4);
  config.optimizer.kind = OptimizerKind::sgd;
  config.optimizer.momentum = 0.9;
  const Outcome resident = Session(config, paged(config, 2, {}, data), data.files).train(kUpdates);
  const Plan plan = paged(config, 2, {.pages = {2048, 4}, .optimizer_state = kBeyond}, data);
  EXPECT_EQ(Session(config, plan, data.files).train(kUpdates), resident);
  audit(config, plan, data);
}

TEST(Paging, EveryBudgetFromALowerFloor) {
  const ModelShape shape{2, 128, 4, 16, 9000};  // its state is more than what transfers need, and its table is worth a place
  const TokenData data(shape.vocab, 400, 90);
  Config config = paged_config(4, shape);
  config.train.micro_batch = 2;
  config.train.accumulation = 2;
  Planner with(config, data.facts());
  Config without_disk = config;
  without_disk.memory.disk.reset();
  Planner without(without_disk, data.facts());
  EXPECT_LT(with.space.floor(), without.space.floor());
  EXPECT_EQ(with.space.ceiling(), without.space.ceiling()) << "a disk is for little memory";
  std::set<std::string> parameters;
  std::set<std::int64_t> stored;
  int tables = 0;
  double before = 1e300;
  for (int i = 0; i < 12; ++i) {
    const Plan plan = with.plan(Bytes{with.space.floor().n + (with.space.ceiling().n - with.space.floor().n) * i / 11});
    EXPECT_LE(plan.update_seconds, before);
    before = plan.update_seconds;
    stored.insert(plan.stored[1].n);
    tables += plan.decisions.residency.tables.beyond;
    audit(config, plan, data);
    parameters.insert(Session(config, plan, data.files).train(2).parameters);
  }
  EXPECT_EQ(parameters.size(), 1u);
  EXPECT_TRUE(stored.contains(0));
  EXPECT_GE(stored.size(), 3u);
  EXPECT_GE(tables, 1);
}

TEST(Paging, TablesIn16BitsRestOnTheDiskAsWell) {
  const ModelShape shape{2, 128, 4, 16, 9000};
  const TokenData data(shape.vocab, 400, 90);
  Config config = paged_config(4, shape);
  config.train.micro_batch = 2;
  config.train.accumulation = 2;
  config.precision.compute = config.precision.parameters = DType::bf16;
  Planner planner(config, data.facts());
  std::set<std::string> parameters;
  int tables = 0;
  for (int i = 0; i < 3; ++i) {
    const Plan plan =
        planner.plan(Bytes{planner.space.floor().n + (planner.space.ceiling().n - planner.space.floor().n) * i / 4});
    for (const Value& value : plan.graph.values)
      tables += value.parameter && value.parameter->table && value.tier != 0 && value.type.dtype == DType::bf16;
    audit(config, plan, data);
    parameters.insert(Session(config, plan, data.files).train(2).parameters);
  }
  EXPECT_EQ(parameters.size(), 1u);
  EXPECT_GE(tables, 1);
}

Bytes transfers_reserve(const Plan& plan, std::string_view what) {
  for (const ReserveItem& item : plan.reserve) {
    if (item.name == what) return item.bytes;
  }
  return {};
}

TEST(Paging, EachEngineIsCountedForItself) {
  const TokenData data(kShape.vocab, 400, 90);
  const Config config = paged_config(4);
  const Graph graph = build_training_graph(config, data.facts(), 1).graph;
  const Graph streamed = apply_paging(graph, find_units(graph), {.pages = {1024, 2}, .optimizer_state = kBeyond});
  Machine machine = round_machine();
  const Bytes threads = total(paging_reserve(streamed, {.pages = {1024, 2}, .optimizer_state = kBeyond}, machine, 0));
  machine.tiers[1].transfers = TransferEngine::io_uring;
  const std::vector<ReserveItem> items = paging_reserve(streamed, {.pages = {1024, 2}, .optimizer_state = kBeyond}, machine, 0);
  EXPECT_EQ(items.size(), 4u);
  EXPECT_LT(total(items), threads) << "so a plan for the ring is none for threads";
  EXPECT_TRUE(paging_reserve(graph, {}, machine, 0).empty());
  const Plan plan = paged(config, 1, {.pages = {1024, 2}, .optimizer_state = kBeyond}, data);
  EXPECT_EQ(plan.transfers, TransferEngine::threads);
  EXPECT_EQ(transfers_reserve(plan, "transfers: staging"), kTransferStaging * (kTransfers + 1));
  EXPECT_EQ(transfers_reserve(plan, "transfers: io_uring"), Bytes{0});
}

// In a thread of its own, which alone is refused.
TEST(Paging, ARefusedEngineIsAPlanThatChanged) {
  const TokenData data(kShape.vocab, 400, 90);
  Plan plan = paged(paged_config(4), 1, {.pages = {1024, 2}, .optimizer_state = kBeyond}, data);
  plan.transfers = TransferEngine::io_uring;
  std::string code;
  std::thread([&] {
    if (!refuse_io_uring()) return;
    try {
      const Stores stores(lower(plan), plan, std::filesystem::temp_directory_path());
      code = "none";
    } catch (const Error& error) {
      code = error.code;
    }
  }).join();
  if (code.empty()) GTEST_SKIP() << "no seccomp filters here";
  EXPECT_EQ(code, "E-PLAN-CHANGED");
}

TEST(Paging, NothingLeavesMemoryWhereTheDiskHasNoRoom) {
  Config config = paged_config(4, {2, 128, 4, 16, 5000});
  for (const Bytes disk : {kKiB, kGiB}) {
    config.memory.disk->size = disk;
    Planner planner(config);
    EXPECT_EQ(planner.plan(planner.space.floor()).stored[1].n > 0, disk == kGiB);
  }
}

TEST_P(PagingBy, CheckpointsAreTheSameBytes) {
  const TokenData data(kShape.vocab, 400, 90);
  const Config config = paged_config(4);
  const ScratchFolder folder;
  std::vector<std::string> texts;
  for (const Residency& residency : {Residency{}, Residency{.pages = {2048, 3}, .optimizer_state = kBeyond}}) {
    const Plan plan = paged(config, 2, residency, data);
    Session session(config, plan, data.files);
    session.train(kUpdates);
    const std::filesystem::path file = folder / ("checkpoint" + std::to_string(texts.size()));
    session.trainer().progress().seconds = 0;
    session.trainer().save_checkpoint_to(file);
    texts.push_back(read_text(state_file(file), 1 << 28, "E-TEST"));
    // The way back works too, into the other kind of plan as well.
    for (const Residency& other : {Residency{}, Residency{.pages = {1024, 4}, .optimizer_state = kBeyond},
                                   Residency{.pages = {1024, 3}, .optimizer_state = {.beyond = true, .kept = 1}}}) {
      const Plan again = paged(config, 2, other, data);
      Session resumed(config, again, data.files);
      resumed.trainer().load(&file);
      resumed.trainer().update();
      Session straight(config, again, data.files);
      straight.train(kUpdates + 1);
      EXPECT_EQ(resumed.trainer().hash_parameters(), straight.trainer().hash_parameters());
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
}

std::string code_of_update(Session& session) {
  try {
    session.trainer().update();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit, ExitCode::data);
    EXPECT_TRUE(error.where.starts_with("waiting for the copy of h.")) << error.where;
    return error.code;
  }
  return "";
}

TEST_P(PagingBy, BrokenDisksAreNamed) {
  const TokenData data(kShape.vocab, 400, 90);
  const Config config = paged_config(4);
  const Plan plan = paged(config, 2, {.pages = {1024, 4}, .optimizer_state = kBeyond}, data);
  {
    Session session(config, plan, data.files);
    session.trainer().load(nullptr);
    session.trainer().update();
    char byte = 0;
    ASSERT_EQ(::ftruncate(session.pages()->fd(), plan.stored[1].n / 2), 0);
    EXPECT_EQ(code_of_update(session), "E-DISK-IO") << byte;
  }
  {
    Session session(config, plan, data.files);
    session.trainer().load(nullptr);
    session.trainer().update();
    std::string path = "/proc/self/fd/" + std::to_string(session.pages()->fd());
    const int fd = ::open(path.c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    const char wrong = 0x7f;
    ASSERT_EQ(::pwrite(fd, &wrong, 1, plan.stored[1].n / 2 + 17), 1);
    ::fsync(fd);
    ::close(fd);
    EXPECT_EQ(code_of_update(session), "E-DISK-CORRUPT");
  }
}

}  // namespace
}  // namespace plimsoll
