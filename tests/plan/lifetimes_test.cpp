// Lifetimes, in-place rules, views and updates on graphs small enough to work out by hand.

#include "plan/lifetimes.h"

#include <gtest/gtest.h>

#include "ops/elementwise/elementwise.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kBytes = 2 * kAlignment.n, kElements = kBytes / 4;
const ValueType kType{DType::f32, Shape{kElements}};

// One section `evaluate` over an input: feed is step 1 (load is step 0), nodes follow from step 2, fetch ends it.
struct Hand {
  Graph graph;
  GraphBuilder builder{graph};
  ValueId x;
  Timeline timeline;
  Lifetimes lifetimes;

  Hand() {
    builder.begin_forward({"evaluate", /*sums=*/true});
    x = builder.add_input("x", kType);
  }
  ValueId gelu(ValueId value, const char* name) { return ops::gelu(builder, value, name); }
  void analyse(ValueId result, const std::vector<std::pair<std::size_t, std::int64_t>>& scratch = {}) {
    graph.results = {result};
    verify(graph);
    timeline = make_timeline(graph, 1, false);
    std::vector<Bytes> bytes(timeline.steps.size());
    for (const auto& [step, size] : scratch) bytes[step] = Bytes{size};
    lifetimes = plimsoll::analyse(graph, timeline, bytes);
  }
  BufferId buffer(ValueId value) const { return lifetimes.buffer_of[value]; }
  std::pair<int, int> life(ValueId value) const {
    const Buffer& where = lifetimes.buffers[buffer(value)];
    return {where.begin, where.end};
  }
  std::int64_t peak() const { return live_profile(lifetimes, timeline, Phase::forward).peak.n; }
};

using Life = std::pair<int, int>;

TEST(Lifetimes, ChainRunsInPlaceButNeverInItsInput) {
  Hand hand;
  const ValueId a = hand.gelu(hand.x, "a"), b = hand.gelu(a, "b"), c = hand.gelu(b, "c");
  hand.analyse(c);
  EXPECT_NE(hand.buffer(a), hand.buffer(hand.x));
  EXPECT_EQ(hand.buffer(b), hand.buffer(a));
  EXPECT_EQ(hand.buffer(c), hand.buffer(a));
  EXPECT_EQ(hand.life(hand.x), Life(1, 3));  // feed to its only reader
  EXPECT_EQ(hand.life(a), Life(2, 6));       // first gelu to the fetch
  EXPECT_EQ(hand.peak(), 2 * kBytes);
}

TEST(Lifetimes, ValueThatIsReadLaterIsNotOverwritten) {
  Hand hand;
  const ValueId a = hand.gelu(hand.x, "a"), b = hand.gelu(a, "b"), c = ops::add(hand.builder, b, a, "c");
  hand.analyse(c);
  EXPECT_NE(hand.buffer(b), hand.buffer(a));
  EXPECT_TRUE(hand.buffer(c) == hand.buffer(a) || hand.buffer(c) == hand.buffer(b));
  const ValueId other = hand.buffer(c) == hand.buffer(a) ? b : a;
  EXPECT_EQ(hand.lifetimes.buffers[hand.buffer(other)].end, 5);
  EXPECT_EQ(hand.peak(), 2 * kBytes);
}

TEST(Lifetimes, ResultIsHeldUntilItIsFetched) {
  Hand hand;
  const ValueId a = hand.gelu(hand.x, "a"), b = hand.gelu(a, "b");
  hand.analyse(a);
  EXPECT_NE(hand.buffer(b), hand.buffer(a));
  EXPECT_EQ(hand.life(a), Life(2, 5));
  EXPECT_EQ(hand.life(b), Life(3, 4));  // nobody reads it: it lives for the step that writes it
}

TEST(Lifetimes, ViewsShareTheBytesAndProlongThem) {
  Hand hand;
  const ValueId a = hand.gelu(hand.x, "a");
  const ValueId v = ops::reshape(hand.builder, a, Shape{4, kElements / 4}, "v"),
                w = ops::reshape(hand.builder, v, Shape{8, kElements / 8}, "w");
  const ValueId b = hand.gelu(hand.x, "b"), c = hand.gelu(w, "c");
  hand.analyse(c);
  EXPECT_EQ(hand.buffer(v), hand.buffer(a));
  EXPECT_EQ(hand.buffer(w), hand.buffer(a));
  EXPECT_EQ(hand.buffer(c), hand.buffer(a)) << "the view's reader is the last one: it may take the bytes";
  EXPECT_NE(hand.buffer(b), hand.buffer(a)) << "the viewed value lives on";
  EXPECT_EQ(hand.timeline.steps.size(), 1u + 1 + 3 + 1) << "a view has no step";
}

TEST(Lifetimes, ViewedValueIsNotOverwrittenWhileAViewIsRead) {
  Hand hand;
  const ValueId a = hand.gelu(hand.x, "a"), v = ops::reshape(hand.builder, a, Shape{4, kElements / 4}, "v");
  const ValueId b = hand.gelu(a, "b"), c = hand.gelu(v, "c");
  const ValueId d = ops::add(hand.builder, b, ops::reshape(hand.builder, c, Shape{kElements}, "r"), "d");
  hand.analyse(d);
  EXPECT_NE(hand.buffer(b), hand.buffer(a));
  EXPECT_EQ(hand.buffer(c), hand.buffer(a));
}

TEST(Lifetimes, ViewOfStateIsTheStateAndIsNeverOverwritten) {
  Hand hand;
  const ValueId p = hand.builder.add_parameter("p", Shape{kElements}, {});
  const ValueId v = ops::reshape(hand.builder, p, Shape{4, kElements / 4}, "v"), a = hand.gelu(v, "a");
  hand.analyse(a);
  ASSERT_TRUE(hand.buffer(v).valid());
  EXPECT_EQ(hand.buffer(v), hand.buffer(p));
  EXPECT_NE(hand.buffer(a), hand.buffer(p));
  EXPECT_TRUE(hand.lifetimes.buffers[hand.buffer(p)].persistent);
}

TEST(Lifetimes, OperandGivenTwiceMayBeOverwritten) {
  Hand hand;
  const ValueId a = hand.gelu(hand.x, "a"), b = ops::add(hand.builder, a, a, "b");
  hand.analyse(b);
  EXPECT_EQ(hand.buffer(b), hand.buffer(a));
}

TEST(Lifetimes, OperandSeenThroughAViewBesideItselfIsNotOverwritten) {
  Hand hand;
  const ValueId a = hand.gelu(hand.x, "a");
  const ValueId v =
      ops::reshape(hand.builder, ops::reshape(hand.builder, a, Shape{4, kElements / 4}, "v"), Shape{kElements}, "w");
  const ValueId b = ops::add(hand.builder, a, v, "b");
  hand.analyse(b);
  EXPECT_NE(hand.buffer(b), hand.buffer(a));
}

TEST(Lifetimes, ScratchLivesForItsStepAlone) {
  Hand hand;
  const ValueId a = hand.gelu(hand.x, "a"), b = hand.gelu(a, "b");
  hand.analyse(b, {{3, kBytes - 28}});
  const BufferId scratch = hand.lifetimes.scratch[3];
  ASSERT_TRUE(scratch.valid());
  EXPECT_EQ(hand.lifetimes.buffers[scratch].bytes, Bytes{kBytes}) << "aligned";
  EXPECT_EQ(hand.lifetimes.buffers[scratch].begin, 3);
  EXPECT_EQ(hand.lifetimes.buffers[scratch].end, 4);
  EXPECT_EQ(hand.peak(), 2 * kBytes);
  const LiveProfile live = live_profile(hand.lifetimes, hand.timeline, Phase::forward);
  EXPECT_EQ(live.bytes, (std::vector<Bytes>{Bytes{kBytes}, Bytes{2 * kBytes}, Bytes{2 * kBytes}, Bytes{kBytes}}));
}

// A micro section that adds into an accumulator, and an update section that reads it.
struct WindowGraph {
  Graph graph;
  ValueId accumulator, updated;

  WindowGraph() {
    GraphBuilder builder(graph);
    accumulator = builder.add_persistent("p.grad", kType, Role::accumulator);
    const ValueId x = builder.add_input("x", kType);
    const ValueId a = ops::gelu(builder, x, "a");
    updated = builder.add1(ops::kAccumulate, ops::NoAttributes{}, {a, accumulator}, "sum");
    builder.set_section(Section::update);
    const ValueId norm = ops::gelu(builder, accumulator, "norm");
    graph.results = {norm};
    sort_sections(graph);
    verify(graph);
  }
};

TEST(Lifetimes, AccumulatorLivesFromItsFirstWriteWhereAWindowIsOneMicroStep) {
  // Steps: load 0; feed 1, gelu 2, accumulate 3; feed 4, gelu 5, fetch 6.
  const WindowGraph window;
  const Timeline timeline = make_timeline(window.graph, 1, false);
  const Lifetimes lifetimes = analyse(window.graph, timeline, std::vector<Bytes>(timeline.steps.size()));
  const Buffer& buffer = lifetimes.buffers[lifetimes.buffer_of[window.accumulator]];
  EXPECT_EQ(lifetimes.buffer_of[window.updated], lifetimes.buffer_of[window.accumulator]);
  EXPECT_FALSE(buffer.persistent);
  EXPECT_EQ(buffer.begin, 3);
  EXPECT_EQ(buffer.first_begin, 3);
  EXPECT_EQ(buffer.end, 6);
}

TEST(Lifetimes, AccumulatorLivesThroughTheMicroStepsOfALongerWindow) {
  const WindowGraph window;
  const Timeline timeline = make_timeline(window.graph, 4, false);
  const Lifetimes lifetimes = analyse(window.graph, timeline, std::vector<Bytes>(timeline.steps.size()));
  const Buffer& buffer = lifetimes.buffers[lifetimes.buffer_of[window.accumulator]];
  EXPECT_EQ(buffer.begin, timeline.micro.begin);
  EXPECT_EQ(buffer.first_begin, 3) << "the first micro-step writes it";
  EXPECT_FALSE(lives(buffer, 2, Phase::first));
  EXPECT_TRUE(lives(buffer, 2, Phase::steady));
  EXPECT_FALSE(lives(buffer, 6, Phase::steady));
  EXPECT_EQ(timeline.of(Phase::first).end, timeline.micro.end);
  EXPECT_EQ(timeline.of(Phase::steady).end, timeline.update.end);
}

TEST(Lifetimes, FirstMicroStepDoesNotReadWhatItWrites) {
  const WindowGraph window;
  const Timeline timeline = make_timeline(window.graph, 4, false);
  const Step& add = timeline.steps[3];
  ASSERT_TRUE(starts_window(window.graph, window.graph.nodes[add.node]));
  EXPECT_EQ(access_of(window.graph, add, true).reads.size(), 1u);
  EXPECT_EQ(access_of(window.graph, add, false).reads.size(), 2u);
}

// Each of n forward passes is a phase with its own name. All share the arena.
TEST(ForwardPasses, AreAListOfPhasesOverOneArena) {
  Graph graph;
  GraphBuilder builder(graph);
  const ValueId w = builder.add_parameter("w", Shape{kElements}, {});
  for (const char* name : {"validate", "test", "prefill"}) {
    const Section section = builder.begin_forward({name, /*sums=*/std::string_view(name) != "prefill"});
    EXPECT_EQ(graph.find_forward(name), section);
    EXPECT_EQ(graph.sums(section), graph.name(section) != "prefill");
    const std::string prefix = std::string(name) + ".";
    graph.results.push_back(ops::gelu(builder, ops::gelu(builder, w, prefix + "inner"), prefix + "outer"));
  }
  verify(graph);
  const Timeline timeline = make_timeline(graph, 1, true);
  std::vector<std::string> names;
  for (const Phase phase : timeline.phases()) {
    if (!timeline.of(phase).empty()) names.emplace_back(name(graph, phase));
  }
  EXPECT_EQ(names, (std::vector<std::string>{"load", "validate", "test", "prefill", "save"}));
  EXPECT_FALSE(graph.find_forward("generate"));
  const Lifetimes lifetimes = analyse(graph, timeline, std::vector<Bytes>(timeline.steps.size()));
  for (const ValueId result : graph.results) {
    const Buffer& buffer = lifetimes.buffers[lifetimes.buffer_of[result]];
    const StepRange range = timeline.of(phase_of(*graph.values[result].section));
    EXPECT_TRUE(range.contains(buffer.begin) && buffer.end <= range.end) << "nothing of a pass lives beyond it";
  }
}

}  // namespace
}  // namespace plimsoll
