// Shards and exchanges: the bounds of shards, sums in the order of ranks, and the programs of all ranks together, which never
// wait for each other. Programs with swapped exchanges, a missing wait, or other bounds are noticed.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "autodiff/sharding.h"
#include "ops/kernel.h"
#include "ranks/rank_run.h"

namespace plimsoll {
namespace {

Config config() { return config_for({2, 128, 4, 16, 4001}, 6, 0.1); }

Config of_stage(int stage) {
  Config of = config();
  of.parallel.zero = stage;
  return of;
}

struct RankProgram {
  Plan plan;
  Program program;
};

RankProgram program_of(RankShare share, std::int64_t micro, int stage = 1) {
  DataFacts facts = kTrainAlone;
  facts.share = share;
  RankProgram result{plan_with(of_stage(stage), micro, {BlockMode::keep}, 1, facts, {}, 1, one_thread()), {}};
  result.program = lower(result.plan);
  return result;
}

std::vector<RankProgram> programs_of(int ranks, std::int64_t micro, int stage = 1) {
  std::vector<RankProgram> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(program_of({rank, ranks}, micro, stage));
  return all;
}

// Runs the exchanges of all ranks side by side as Peers does. "" if all of them end; else what does not match, or who waits.
std::string run_together(const std::vector<RankProgram>& ranks) {
  struct Part {
    Bytes bytes;
    int* open;
  };
  const std::size_t n = ranks.size();
  std::vector<std::deque<Part>> sent(n * n), received(n * n);
  std::vector<std::map<std::uint32_t, int>> open(n);
  std::vector<std::vector<const Instruction*>> lists(n);
  for (std::size_t rank = 0; rank < n; ++rank) {
    for (const auto* section : {&ranks[rank].program.micro, &ranks[rank].program.update}) {
      for (const Instruction& instruction : *section) lists[rank].push_back(&instruction);
    }
  }
  std::vector<std::size_t> at(n, 0);
  while (true) {
    bool moved = false, left = false;
    for (std::size_t rank = 0; rank < n; ++rank) {
      for (; at[rank] < lists[rank].size(); ++at[rank], moved = true) {
        const Instruction& instruction = *lists[rank][at[rank]];
        if (const auto* start = std::get_if<StartExchange>(&instruction)) {
          int& parts = open[rank][start->event];
          parts += static_cast<int>(start->sends.size() + start->receives.size());
          for (const auto& part : start->sends) {
            sent[rank * n + static_cast<std::size_t>(part.rank)].push_back({part.memory.bytes, &parts});
          }
          for (const auto& part : start->receives) {
            received[static_cast<std::size_t>(part.rank) * n + rank].push_back({part.memory.bytes, &parts});
          }
          for (std::size_t pair = 0; pair < n * n; ++pair) {
            while (!sent[pair].empty() && !received[pair].empty()) {
              if (sent[pair].front().bytes != received[pair].front().bytes) {
                return fmt::format("{} of rank {} sends {} bytes, {} are expected", describe(instruction, ranks[rank].plan.graph),
                                   pair / n, sent[pair].front().bytes.n, received[pair].front().bytes.n);
              }
              --*sent[pair].front().open, --*received[pair].front().open;
              sent[pair].pop_front(), received[pair].pop_front();
            }
          }
        } else if (const auto* wait = std::get_if<WaitExchange>(&instruction)) {
          if (open[rank][wait->event] > 0) break;
        }
      }
      left = left || at[rank] < lists[rank].size();
    }
    if (!left) return "";
    if (!moved) return "ranks wait for each other";
  }
}

TEST(Exchanges, OfAllRanksEnd) {
  for (const int ranks : {2, 3, 5, 8}) {
    for (const std::int64_t micro : {1, 2, 6}) {
      for (const int stage : {1, 2}) {
        const std::vector<RankProgram> all = programs_of(ranks, micro, stage);
        EXPECT_EQ(run_together(all), "") << ranks << " " << micro << " " << stage;
        for (const RankProgram& each : all) EXPECT_NO_THROW(verify(each.program, each.plan.graph));
      }
    }
  }
}

std::vector<std::size_t> starts_in(const std::vector<Instruction>& section) {
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < section.size(); ++i) {
    if (std::holds_alternative<StartExchange>(section[i])) starts.push_back(i);
  }
  return starts;
}

void expect_order_matters(const std::vector<RankProgram>& all, std::vector<Instruction>& section) {
  int noticed = 0;
  for (const std::size_t first : starts_in(section)) {
    for (const std::size_t second : starts_in(section)) {
      const auto &one = std::get<StartExchange>(section[first]), &other = std::get<StartExchange>(section[second]);
      if (second <= first || one.sends.empty() || other.sends.empty() || noticed > 0) continue;
      if (one.sends.front().memory.bytes == other.sends.front().memory.bytes) continue;
      std::swap(section[first], section[second]);
      EXPECT_NE(run_together(all), "");
      std::swap(section[first], section[second]);
      ++noticed;
    }
  }
  EXPECT_EQ(noticed, 1);
}

// The first exchanges are of tensors with several sizes.
TEST(Exchanges, InAnotherOrderAreNoticed) {
  for (const int stage : {1, 2}) {
    std::vector<RankProgram> all = programs_of(2, 1, stage);
    expect_order_matters(all, stage == 1 ? all[1].program.update : all[1].program.micro);
  }
}

TEST(Exchanges, WithoutAWaitAreNoticed) {
  for (const int stage : {1, 2}) {
    RankProgram one = program_of({0, 2}, 1, stage);
    std::vector<Instruction>& section = stage == 1 ? one.program.update : one.program.micro;
    std::size_t tried = 0;
    for (std::size_t i = 0; i < section.size(); ++i) {
      if (!std::holds_alternative<WaitExchange>(section[i])) continue;
      const Instruction wait = section[i];
      section.erase(section.begin() + static_cast<std::ptrdiff_t>(i));
      EXPECT_ANY_THROW(verify(one.program, one.plan.graph)) << i;
      section.insert(section.begin() + static_cast<std::ptrdiff_t>(i), wait);
      ++tried;
    }
    EXPECT_GT(tried, 20u);
  }
}

TEST(Exchanges, WithAShardThatIsATileOffAreNoticed) {
  for (const OpDef* op : {&kGatherShards, &kReduceShards}) {
    std::vector<RankProgram> all = programs_of(2, 1, op == &kReduceShards ? 2 : 1);
    Graph& graph = all[1].plan.graph;
    const auto moved = std::ranges::find_if(graph.order, [&](NodeId id) {
      const Node& node = graph.nodes[id];
      return node.op == op && node.attributes.as<ExchangeAttributes>().elements(0) > ops::kNormTile;
    });
    ASSERT_NE(moved, graph.order.end());
    ExchangeAttributes attributes = graph.nodes[*moved].attributes.as<ExchangeAttributes>();
    attributes.cuts[1] -= ops::kNormTile;
    graph.nodes[*moved].attributes = attributes;
    all[1].program = lower(all[1].plan);
    EXPECT_NE(run_together(all), "");
  }
}

TEST(Shards, CoverEachTensorAtTilesAndAreBalanced) {
  for (const int ranks : {2, 3, 7}) {
    std::vector<std::int64_t> load(static_cast<std::size_t>(ranks), 0);
    std::int64_t all = 0;
    std::vector<std::vector<std::int64_t>> first;
    for (int rank = 0; rank < ranks; ++rank) {
      DataFacts facts = kTrainAlone;
      facts.share = {rank, ranks};
      const TrainingGraph model = build_training_graph(config(), facts, 1);
      std::vector<std::vector<std::int64_t>> cuts;
      for (const ShardedParameter& each : model.shards) {
        const std::int64_t elements = model.graph.values[each.parameter].type.shape.elements();
        cuts.push_back(each.cuts);
        EXPECT_EQ(each.cuts.size(), static_cast<std::size_t>(ranks) + 1);
        EXPECT_EQ(each.cuts.front(), 0);
        EXPECT_EQ(each.cuts.back(), elements);
        for (const std::int64_t cut : each.cuts) EXPECT_TRUE(cut % ops::kNormTile == 0 || cut == elements) << cut;
        if (rank > 0) continue;
        all += elements;
        for (std::size_t k = 0; k < load.size(); ++k) load[k] += each.cuts[k + 1] - each.cuts[k];
      }
      if (rank == 0) first = cuts;
      EXPECT_EQ(cuts, first) << "all ranks know the same bounds";
    }
    for (const std::int64_t of_rank : load) {
      EXPECT_NEAR(static_cast<double>(of_rank), static_cast<double>(all) / ranks, 2.0 * ops::kNormTile);
    }
  }
}

// Nodes of the micro-step and of other passes have the same numbers on all ranks, so decisions are common.
TEST(Shards, LeaveTheMicroStepAsItIs) {
  const auto nodes_of = [](RankShare share, int stage = 1) {
    DataFacts facts = kTrainAndValidate;
    facts.share = share;
    const Graph graph = build_training_graph(of_stage(stage), facts, 1).graph;
    std::vector<std::pair<std::size_t, std::string>> nodes;
    for (const NodeId id : graph.order) {
      if (graph.nodes[id].section != Section::update) nodes.emplace_back(id.index, graph.nodes[id].line.text());
    }
    return nodes;
  };
  EXPECT_EQ(nodes_of({0, 3}), nodes_of({2, 3}));
  EXPECT_EQ(nodes_of({0, 3}), nodes_of({0, 1}));
  EXPECT_EQ(nodes_of({0, 3}, 2), nodes_of({2, 3}, 2));
}

// The bits of ((a + b) + c), on each rank.
TEST(Shards, AreAddedInTheOrderOfRanks) {
  constexpr std::int64_t kElements = 40000;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> numbers(3, std::vector<float>(kElements));
  for (auto& of_rank : numbers) {
    for (float& number : of_rank) number = normal(random);
  }
  std::vector<float> want(kElements);
  for (std::size_t i = 0; i < want.size(); ++i) want[i] = (numbers[0][i] + numbers[1][i]) + numbers[2][i];
  cpu::set_thread_count(1);
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    ExchangeAttributes of{rank, {0, 0, 0, 0}};
    for (std::size_t k = static_cast<std::size_t>(rank) + 1; k < of.cuts.size(); ++k) of.cuts[k] = kElements;
    const Attributes attributes = of;
    const std::vector<ValueType> types{{DType::f32, Shape{kElements}}};
    const KernelRequest request{.op = &kSumShards, .attributes = &attributes, .inputs = types, .outputs = types};
    const CpuKernel& kernel = *find_cpu_kernel(kSumShards);
    std::vector<std::byte> scratch(static_cast<std::size_t>(kernel.choose(request).scratch.n));
    const std::size_t step = scratch.size() / 2;
    std::size_t slot = 0;
    for (std::int64_t other = 0; other < 3; ++other) {
      if (other == rank) continue;
      std::memcpy(scratch.data() + slot++ * step, numbers[static_cast<std::size_t>(other)].data(), kElements * sizeof(float));
    }
    std::vector<float> own = numbers[static_cast<std::size_t>(rank)];
    std::byte* const at = reinterpret_cast<std::byte*>(own.data());
    const std::vector<std::byte*> operands{at};
    kernel.bind(request)->run({operands, operands, scratch.data(), {0, kElements, 0}});
    EXPECT_EQ(own, want) << rank;
  }
}

}  // namespace
}  // namespace plimsoll
