// Micro-batches that go through each block together: the same bits for every group size, exactly the planned bytes, and gradients
// that need not be kept.
#include <fmt/core.h>

#include <array>
#include <ostream>
#include <utility>

#include "plan/passes/grouping.h"
#include "run/session.h"

namespace plimsoll {
namespace {

constexpr int kUpdates = 2;

struct Case {
  const char* name;
  ModelShape shape;
  std::vector<Residency> pagings;
  std::int64_t least = 2;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class GroupsOf : public testing::TestWithParam<Case> {};

// The modes of the blocks and the chunks of the loss vary from one training to the next.
struct Variant {
  BlockMode mode;
  int chunks;
};
Variant variant(std::size_t round) {
  return {std::array{BlockMode::keep, BlockMode::cheap, BlockMode::recompute, BlockMode::pieces}[round % 4],
          std::array{1, 3, 100}[round % 3]};
}

// A training in groups gives `alone`, with the predicted bytes in each phase.
void expect_same(const Config& config, const Plan& plan, const TokenData& data, const Outcome& alone) {
  verify(plan.graph);
  EXPECT_EQ(Session(config, plan, data.files).train(kUpdates), alone);
  Session session(config, plan, data.files, Watch::audit);
  session.run_all_phases(data.files);
  EXPECT_EQ(difference(plan, session.audit().phases()), "");
  if (session.pages() != nullptr) EXPECT_EQ(session.pages()->written(), plan.stored[1]);
}

TEST_P(GroupsOf, SameBitsAndExactBytes) {
  const auto& [name, shape, pagings, least] = GetParam();
  constexpr std::int64_t kBatch = 4;
  const TokenData data(shape.vocab, 700, 300);
  std::size_t round = 0;
  using Split = std::pair<double, std::int64_t>;
  for (const auto& [clip, micro] : {Split{0, 1}, Split{0, 2}, Split{1, 1}, Split{1, 2}}) {
    Config config = config_for(shape, kBatch, 0.1);
    config.train.gradient_clip = clip;
    config.memory.disk = DiskBudget{std::filesystem::temp_directory_path(), kGiB};
    const Outcome alone =
        Session(config, plan_with(config, micro, {BlockMode::keep}, 1, data.facts()), data.files).train(kUpdates);
    for (std::int64_t group = least; group * micro <= kBatch; group *= 2) {
      for (const Residency& residency : pagings) {
        const auto [mode, chunks] = variant(round++);
        SCOPED_TRACE(fmt::format("clip {} micro {} group {} {} {} chunks, residency {}", clip, micro, group, plimsoll::name(mode),
                                 chunks, &residency - pagings.data()));
        expect_same(config, plan_with(config, micro, {mode}, chunks, data.facts(), residency, group), data, alone);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, GroupsOf,
    testing::Values(
        Case{"blocks",
             {3, 128, 4, 11, 301},
             {{},
              {.pages = {1024, 2}, .optimizer_state = kBeyond},
              {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = {.beyond = true, .kept = 1}},
              {.pages = {kPageStep, 2}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond},
              {.pages = {kPageStep, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .accumulators = kBeyond, .inputs = 2},
              {.pages = {1024, 2},
               .optimizer_state = kBeyond,
               .parameters = kBeyond,
               .accumulators = kBeyond,
               .by_matrix = true}}},
        // The embedding's part of the gradient has slots.
        Case{"tables",
             {2, 64, 2, 9, 9001},
             {{.pages = {kPageStep, 4},
               .optimizer_state = kBeyond,
               .parameters = kBeyond,
               .accumulators = kBeyond,
               .tables = kBeyond,
               .inputs = 2,
               .by_matrix = true},
              {.pages = {1 << 18, 3}, .optimizer_state = kBeyond, .parameters = kBeyond, .tables = kBeyond}}},
        // It is as large as the table.
        Case{"rows",
             {2, 32, 2, 130, 4097},
             {{},
              {.pages = {kPageStep, 2},
               .optimizer_state = kBeyond,
               .parameters = kBeyond,
               .accumulators = kBeyond,
               .tables = kBeyond}},
             1}),
    [](const auto& info) { return info.param.name; });

// With the whole window in one group and no norm, gradients live as long as their block's backward pass.
TEST(Grouping, AWindowThatGoesTogetherKeepsNoGradients) {
  Config config = config_for({4, 64, 4, 12, 301}, 4);
  config.train.gradient_clip = 0;
  const auto accumulators = [&](std::int64_t group) {
    const Plan plan = plan_with(config, 1, {BlockMode::recompute}, 1, kTrainAndValidate, {}, group);
    Bytes most;
    for (int step = plan.timeline.micro.begin; step < plan.timeline.update.end; ++step) {
      Bytes bytes;
      for (const Buffer& buffer : plan.lifetimes.buffers) {
        if (buffer.owner == name(Role::accumulator) && lives(buffer, step, Phase::steady)) bytes += buffer.bytes;
      }
      most = std::max(most, bytes);
    }
    return most;
  };
  EXPECT_EQ(accumulators(2), accumulators(1));
  EXPECT_LT(2 * accumulators(4).n, accumulators(1).n);
}

TEST(Grouping, ReplicasStandTogetherBySegments) {
  const Config config = config_for({3, 64, 4, 12, 301}, 4);
  const TrainingGraph model = build_training_graph(config, kTrainAndValidate, 1);
  const Graph& graph = model.graph;
  const std::vector<Unit> units = find_units(graph);
  ASSERT_TRUE(may_group(graph, units));
  EXPECT_EQ(why_not_grouped(graph, units, 4), "");
  EXPECT_NE(why_not_grouped(graph, units, kMostGroup + 1), "");
  EXPECT_NE(why_not_grouped(graph, {}, 4), "");
  const Graph grouped = apply_grouping(graph, units, 4, false);
  verify(grouped);
  EXPECT_EQ(grouped.section_order(Section::micro).size(), 4 * graph.section_order(Section::micro).size());
  EXPECT_EQ(grouped.section_order(Section::update), graph.section_order(Section::update));
  EXPECT_EQ(replicas_of(grouped, model.micro.input("tokens")).size(), 4U);
  // A block's nodes run once for each micro-batch before the first node of the next block.
  std::vector<std::string> passes;
  for (const NodeId id : grouped.section_order(Section::micro)) {
    const std::string block = grouped.nodes[id].line.text().substr(0, 3);
    if (!block.starts_with("h.")) continue;
    const std::string pass = block + (grouped.nodes[id].backward ? " backward" : "");
    if (passes.empty() || passes.back() != pass) passes.push_back(pass);
  }
  EXPECT_EQ(passes, (std::vector<std::string>{"h.0", "h.1", "h.2", "h.2 backward", "h.1 backward", "h.0 backward"}));
}

// Two blocks that share a norm would add to its gradient in another order.
TEST(Grouping, NotWhereAnAccumulatorBelongsToSeveralSegments) {
  const Config config = config_for({3, 64, 4, 12, 301}, 4);
  Graph graph = build_training_graph(config, kTrainAndValidate, 1).graph;
  const std::vector<Unit> units = find_units(graph);
  const ValueId first = graph.find("h.0.ln_1.weight"), second = graph.find("h.1.ln_1.weight");
  const ValueId sum = graph.find("h.0.ln_1.weight.grad"), other = graph.find("h.1.ln_1.weight.grad");
  for (Node& node : graph.nodes) {
    for (ValueId& input : node.inputs) input = input == first ? second : input == sum ? other : input;
  }
  for (Value& value : graph.values) {
    if (value.version_of == sum) value.version_of = other;
  }
  EXPECT_FALSE(may_group(graph, units));
  EXPECT_EQ(why_not_grouped(graph, units, 1), "");
  EXPECT_NE(why_not_grouped(graph, units, 2), "");
}

}  // namespace
}  // namespace plimsoll
