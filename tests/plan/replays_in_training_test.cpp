// Replays of single nodes in a training graph, judged by an independent interpreter. It runs the timeline on the simulator's
// buffers, and each buffer holds the name of its content. Every node must find the same inputs as without replays and without
// shared bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "plan/passes/replay.h"
#include "plan/regions/from_graph.h"
#include "plan/simulation.h"
#include "plan/small_models.h"
#include "run/random_graph.h"

namespace plimsoll {
namespace {

using Content = std::uint64_t;

Content mixed(Content a, Content b) {
  a ^= b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2);
  return a * 0xbf58476d1ce4e5b9ull;
}
Content fresh(std::uint64_t kind, std::uint64_t id, std::uint64_t round) { return mixed(mixed(kind + 1, id), round); }

std::vector<Alias> pairs_of(const Node& node) { return aliases_of(*node.op, node.attributes); }

bool updates(const Node& node, std::size_t input) {
  const std::vector<Alias> pairs = pairs_of(node);
  return std::any_of(pairs.begin(), pairs.end(), [&](const Alias& pair) { return in_place(pair.kind) && pair.input == input; });
}

// The first round of a window writes the accumulators, and later ones add to them.
bool is_read(const Graph& graph, const Node& node, std::size_t input, std::int64_t round) {
  return round > 0 || !updates(node, input) || !starts_window(graph, node);
}

Content output_of(NodeId original, std::size_t output, const std::vector<Content>& inputs) {
  Content content = fresh(7, original.index, output);
  for (const Content input : inputs) content = mixed(content, input);
  return content;
}

// The inputs of each node of the graph without replays, by round.
using Found = std::map<std::pair<NodeId, std::int64_t>, std::vector<Content>>;

struct Reference {
  Found found;
  std::map<ValueId, Content> last;  // of persistent values
};

Reference run_in_order(const Graph& graph, std::int64_t rounds) {
  std::map<ValueId, Content> held;
  Reference result;
  const auto read = [&](ValueId value, std::int64_t round) {
    const ValueId root = without_views(graph, value), origin = origin_of(graph, root);
    const Value& what = graph.values[root];
    if (graph.values[origin].persistent()) return held.try_emplace(origin, fresh(1, origin.index, 0)).first->second;
    return what.producer.valid() ? held.at(origin) : fresh(2, root.index, round);
  };
  const auto run = [&](Section section, std::int64_t round) {
    for (const NodeId id : graph.section_order(section)) {
      const Node& node = graph.nodes[id];
      if (node.op->view) continue;
      std::vector<Content> inputs;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        inputs.push_back(is_read(graph, node, i, round) ? read(node.inputs[i], round) : 0);
      }
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        held[origin_of(graph, node.outputs[i])] = output_of(id, i, inputs);
      }
      result.found[{id, round}] = std::move(inputs);
    }
  };
  for (std::int64_t round = 0; round < rounds; ++round) run(Section::micro, round);
  run(Section::update, rounds);
  for (const auto& [value, content] : held) {
    if (graph.values[value].persistent()) result.last[value] = content;
  }
  return result;
}

class Interpreter {
 public:
  Interpreter(const Simulation& simulation, const Reference& reference)
      : simulation_(simulation), graph_(simulation.graph), reference_(reference) {}

  void run() {
    const Lifetimes& lifetimes = simulation_.lifetimes;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
      const BufferId buffer = lifetimes.buffer_of[ValueId{i}];
      if (!buffer.valid()) continue;
      const Value& first = graph_.values[lifetimes.buffers[buffer].value];
      if (first.persistent()) held_[buffer] = fresh(1, lifetimes.buffers[buffer].value.index, 0);
    }
    const Timeline& timeline = simulation_.timeline;
    for (std::int64_t round = 0; round < timeline.rounds; ++round) {
      for (int step = timeline.micro.begin; step < timeline.micro.end; ++step) visit(step, round);
    }
    for (int step = timeline.update.begin; step < timeline.update.end; ++step) visit(step, timeline.rounds);
    for (const auto& [value, content] : reference_.last) {
      EXPECT_EQ(held_[lifetimes.buffer_of[value]], content) << graph_.values[value].name.text() << " at the end";
    }
  }

  // The peak of the bytes in buffers, each alive from the first to the last step that touches it; for windows of one round.
  std::int64_t peak() const {
    const StepRange range = simulation_.timeline.of(Phase::steady);
    std::int64_t most = 0;
    for (int step = range.begin; step < range.end; ++step) {
      std::int64_t live = 0;
      for (std::size_t i = 0; i < simulation_.lifetimes.buffers.size(); ++i) {
        const Buffer& buffer = simulation_.lifetimes.buffers[BufferId{i}];
        const auto touched = touched_.find(BufferId{i});
        const bool lives = touched != touched_.end() && touched->second.begin <= step && step < touched->second.end;
        live += buffer.persistent || lives ? buffer.bytes.n : 0;
      }
      most = std::max(most, live);
    }
    return most;
  }

 private:
  void touch(BufferId buffer, int step) {
    StepRange& range = touched_.try_emplace(buffer, StepRange{step, step + 1}).first->second;
    range.begin = std::min(range.begin, step);
    range.end = std::max(range.end, step + 1);
  }

  void visit(int step, std::int64_t round) {
    const Step& what = simulation_.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind == Step::Kind::feed) {
      for (const ValueId value : access_of(graph_, what, false).writes) {
        touch(simulation_.lifetimes.buffer_of[value], step);
        held_[simulation_.lifetimes.buffer_of[value]] =
            fresh(2, value.index, what.section == Section::micro ? round : simulation_.timeline.rounds);
      }
    } else if (what.kind == Step::Kind::fetch) {
      for (const ValueId value : access_of(graph_, what, false).reads) touch(simulation_.lifetimes.buffer_of[value], step);
    } else if (what.kind == Step::Kind::node) {
      const BufferId scratch = simulation_.lifetimes.scratch[static_cast<std::size_t>(step)];
      if (scratch.valid()) touch(scratch, step);
      perform(what.node, step, what.section == Section::micro ? round : simulation_.timeline.rounds);
    }
  }

  void perform(NodeId id, int step, std::int64_t round) {
    const Node& node = graph_.nodes[id];
    const NodeId original = node.clone_of.valid() ? node.clone_of : id;
    const std::vector<Content>& expected = reference_.found.at({original, round});
    std::vector<BufferId> places;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      places.push_back(simulation_.lifetimes.buffer_of[node.inputs[i]]);
      if (!is_read(graph_, node, i, round)) continue;
      touch(places.back(), step);
      EXPECT_EQ(held_[places.back()], expected[i]) << node.op->name << " at " << node.line.text() << ", input " << i;
    }
    std::vector<BufferId> written;
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const BufferId place = simulation_.lifetimes.buffer_of[node.outputs[i]];
      EXPECT_EQ(std::count(written.begin(), written.end(), place), 0) << node.op->name << " writes two results into one buffer";
      written.push_back(place);
      for (std::size_t input = 0; input < places.size(); ++input) {
        if (places[input] != place) continue;
        const std::vector<Alias> pairs = pairs_of(node);
        EXPECT_TRUE(
            std::any_of(pairs.begin(), pairs.end(), [&](const Alias& pair) { return pair.input == input && pair.output == i; }))
            << node.op->name << " overwrites its input " << input;
      }
      touch(place, step);
      held_[place] = output_of(original, i, expected);
    }
  }

  const Simulation& simulation_;
  const Graph& graph_;
  const Reference& reference_;
  std::map<BufferId, Content> held_;
  std::map<BufferId, StepRange> touched_;
};

// Nodes that may run again, each before some later one.
std::vector<NodeReplay> random_replays(const Graph& graph, std::mt19937& random) {
  const std::vector<NodeId> order = graph.section_order(Section::micro);
  std::vector<NodeReplay> replays;
  for (std::size_t tries = 1 + random() % 12; tries > 0; --tries) {
    const std::size_t node = random() % order.size(), before = random() % order.size();
    if (node >= before || !may_run_again(graph, graph.nodes[order[node]]) || graph.nodes[order[before]].op->view) continue;
    replays.push_back({order[node], order[before]});
  }
  return replays;
}

// True if a node would run again after an update of its inputs, with updates in their original place.
bool behind_an_update(const Simulation& keep, const NodeReplay& replay) {
  bool updated = false;
  for (int step = keep.timeline.micro.begin; step < keep.timeline.micro.end; ++step) {
    const Step& what = keep.timeline.steps[static_cast<std::size_t>(step)];
    if (what.kind != Step::Kind::node) continue;
    if (what.node == replay.before) return updated;
    const Node& node = keep.graph.nodes[what.node];
    if (what.section != Section::update) continue;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::vector<ValueId>& reads = keep.graph.nodes[replay.node].inputs;
      updated = updated || (updates(node, i) && std::find(reads.begin(), reads.end(), node.inputs[i]) != reads.end());
    }
  }
  return false;
}

TEST(ReplaysInTraining, EveryNodeFindsWhatItFindsWithoutThem) {
  int late = 0, replayed = 0;
  for (unsigned seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const RandomNetwork network = random_network(seed, 2);
    OpCatalogue catalogue = round_catalogue();
    NodeKernels kernels(2, catalogue);
    const std::int64_t rounds = 1 + seed % 3 / 2;
    const Reference reference = run_in_order(network.graph, rounds);
    const Simulation keep = simulate(network.graph, rounds, 1, true, kernels);
    std::vector<std::vector<NodeReplay>> all{{}};
    for (int i = 0; i < 3; ++i) all.push_back(random_replays(network.graph, random));
    if (seed % 5 == 0) {
      const replays::GraphProblem problem = replays::problem_of(keep, {}, false, 0);
      for (const auto& found : replays::schedules(problem.problem)) all.push_back(replays::nodes_of(problem, found));
    }
    for (const std::vector<NodeReplay>& replays : all) {
      for (const NodeReplay& replay : replays) late += behind_an_update(keep, replay);
      replayed += static_cast<int>(replays.size());
      const Simulation simulation = simulate(apply_replays(network.graph, replays), rounds, 1, true, kernels);
      Interpreter interpreter(simulation, reference);
      interpreter.run();
      if (rounds == 1)
        EXPECT_EQ(interpreter.peak(), live_profile(simulation.lifetimes, simulation.timeline, Phase::steady).peak.n);
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(replayed, 300);
  EXPECT_GT(late, 5);
}

// If an op may overwrite an operand and reads that operand a second time, its result takes other bytes.
TEST(ReplaysInTraining, WhatIsReadTwiceIsOverwrittenOnlyByAnOpThatMayOverwriteEither) {
  constexpr auto kFirst = [](const Attributes&) { return std::vector<Alias>{{0, 0, AliasKind::may_overwrite}}; };
  OpDef first = ops::kMultiply;
  first.aliases = kFirst;
  for (const bool twice : {false, true}) {
    for (const bool either : {false, true}) {
      Graph graph;
      GraphBuilder builder(graph);
      const ValueId a = builder.add_input("a", {DType::f32, Shape{64}}), b = builder.add_input("b", {DType::f32, Shape{64}});
      const ValueId x = builder.add1(ops::kRelu, ops::NoAttributes{}, {a}, "x");
      const ValueId y = builder.add1(either ? ops::kMultiply : first, ops::NoAttributes{}, {x, twice ? x : b}, "y");
      graph.results = {builder.add1(ops::kRelu, ops::NoAttributes{}, {y}, "z")};
      const Timeline timeline = make_timeline(graph, 1, false);
      const Lifetimes lifetimes = analyse(graph, timeline, std::vector<Bytes>(timeline.steps.size()));
      EXPECT_EQ(lifetimes.buffer_of[x] == lifetimes.buffer_of[y], !twice || either) << twice << either;
    }
  }
}

}  // namespace
}  // namespace plimsoll
