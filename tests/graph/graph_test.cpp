// The graph itself: names and lines from the builder, sections, the hash, and planted faults that verify() must find.
#include "graph/graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "base/error.h"
#include "base/philox.h"
#include "graph/builder.h"
#include "graph/kernel_catalogue.h"
#include "ops/attributes.h"
#include "ops/dropout/dropout.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/norm/norm.h"
#include "ops/shape/shape_ops.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

// y = gelu(x w), z = y + x in the section micro; w is updated in place in the section update.
struct Example {
  Graph graph;
  ValueId x, w, y, g, z, gradient, total;

  Example() {
    GraphBuilder builder(graph);
    w = builder.add_parameter("w", {3, 3}, {Initializer::Kind::normal, 0.02});
    gradient = builder.add_persistent("w.grad", {DType::f32, {3, 3}}, Role::accumulator);
    x = builder.add_input("x", {DType::f32, {2, 3}});
    {
      const GraphBuilder::Scope block(builder, "h.0");
      const GraphBuilder::Scope part(builder, "mlp");
      y = ops::linear(builder, x, w, {}, "");
      g = ops::gelu(builder, y, "gelu");
    }
    z = ops::add(builder, g, x, "z");
    builder.set_section(Section::update);
    builder.set_line("update");
    total = builder.add1(ops::kSumOfSquares, ops::NoAttributes{}, {gradient}, "sum");
  }
};

std::string fault_of(const std::function<void(Example&)>& plant) {
  Example example;
  verify(example.graph);
  plant(example);
  try {
    verify(example.graph);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind, ErrorKind::internal);
    return error.what();
  }
  return "nothing";
}

Node& node(Example& example, std::size_t i) { return example.graph.nodes[NodeId{i}]; }

void expect_fault(const std::string& text, const std::function<void(Example&)>& plant) {
  const std::string fault = fault_of(plant);
  EXPECT_NE(fault.find(text), std::string::npos) << fault;
}

TEST(Verify, AcceptsAnEmptyGraph) { EXPECT_NO_THROW(verify(Graph{})); }

TEST(Verify, FindsInputsThatDoNotExist) {
  expect_fault("an input does not exist", [](Example& e) { node(e, 0).inputs[0] = ValueId{99}; });
  expect_fault("an input does not exist", [](Example& e) { node(e, 0).inputs[0] = ValueId{}; });
}

TEST(Verify, FindsOutputsThatDoNotExist) {
  expect_fault("an output does not exist", [](Example& e) { node(e, 0).outputs[0] = ValueId{99}; });
}

TEST(Verify, FindsReadsBeforeProduction) {
  expect_fault("reads h.0.mlp before it is produced", [](Example& e) { std::swap(e.graph.order[0], e.graph.order[1]); });
}

TEST(Verify, FindsValuesThatAreProducedTwice) {
  expect_fault("h.0.mlp is produced twice", [](Example& e) { e.graph.order[1] = e.graph.order[0]; });
}

TEST(Verify, FindsAWrongProducer) {
  expect_fault("names another producer", [](Example& e) { e.graph.values[e.y].producer = NodeId{1}; });
  expect_fault("names another producer", [](Example& e) { node(e, 2).outputs[0] = e.w; });
}

TEST(Verify, FindsNodesOutsideTheOrder) {
  expect_fault("does not name every node once", [](Example& e) { e.graph.order.pop_back(); });
  expect_fault("does not name every node once", [](Example& e) { e.graph.order.push_back(NodeId{0}); });
}

TEST(Verify, FindsSectionsOutOfOrder) {
  expect_fault("sections are out of order",
               [](Example& e) { std::rotate(e.graph.order.begin(), e.graph.order.end() - 1, e.graph.order.end()); });
}

TEST(Verify, FindsReadsAcrossSections) {
  expect_fault("of another section", [](Example& e) { node(e, 3).inputs[0] = e.z; });
}

TEST(Verify, FindsOutputsOfAnotherSection) {
  expect_fault("of another section", [](Example& e) { e.graph.values[e.total].section = Section::micro; });
  expect_fault("of another section", [](Example& e) { e.graph.values[e.z].section.reset(); });
}

TEST(Verify, FindsReadsOfWhatWasUpdatedInPlace) {
  const auto update = [](Example& e) {
    GraphBuilder builder(e.graph);
    builder.set_section(Section::update);
    return builder.add1(ops::kAccumulate, ops::NoAttributes{}, {e.w, e.gradient}, "newer");
  };
  expect_fault("reads w.grad after it was updated in place", [&](Example& e) {
    update(e);
    GraphBuilder builder(e.graph);
    builder.set_section(Section::update);
    builder.add1(ops::kSumOfSquares, ops::NoAttributes{}, {e.gradient}, "sum");
  });
  Example e;
  const ValueId newer = update(e);
  GraphBuilder builder(e.graph);
  builder.set_section(Section::update);
  builder.add1(ops::kSumOfSquares, ops::NoAttributes{}, {newer}, "sum");
  builder.begin_forward({"evaluate"});  // in a later section the persistent value is what it was updated to
  builder.add1(ops::kSumOfSquares, ops::NoAttributes{}, {e.gradient}, "sum");
  EXPECT_NO_THROW(verify(e.graph));
}

TEST(Verify, FindsResultsThatDoNotExist) {
  Example e;
  e.graph.results.push_back(ValueId{99});
  EXPECT_THROW(verify(e.graph), Error);
}

TEST(Verify, FindsResultsThatAreNeverProduced) {
  expect_fault("the result orphan is never produced", [](Example& e) {
    Value orphan = e.graph.values[e.z];
    orphan.name = "orphan";
    e.graph.results.push_back(e.graph.values.push_back(orphan));
  });
  Example e;
  e.graph.results = {e.z, e.w, e.total};
  EXPECT_NO_THROW(verify(e.graph));
}

TEST(Verify, FindsNodesThatDoNotExist) {
  expect_fault("names a node that does not exist", [](Example& e) { e.graph.order.back() = NodeId{99}; });
  expect_fault("names a node that does not exist", [](Example& e) { e.graph.order.back() = NodeId{}; });
}

// Views share bytes: an update through one of them is an update of all.
TEST(Verify, FindsReadsOfViewsOfWhatWasUpdatedInPlace) {
  struct Views {
    Example e;
    GraphBuilder builder{e.graph};
    ValueId flat, gradient;

    Views() {
      builder.set_section(Section::update);
      flat = ops::reshape(builder, e.gradient, Shape{9}, "flat");
      gradient = ops::reshape(builder, e.w, Shape{9}, "w.flat");
    }
    void read(ValueId value) { builder.add1(ops::kSumOfSquares, ops::NoAttributes{}, {value}, "sum"); }
    ValueId update(ValueId by, ValueId into) { return builder.add1(ops::kAccumulate, ops::NoAttributes{}, {by, into}, "newer"); }
  };
  {
    Views v;
    v.read(v.flat);
    v.read(ops::reshape(v.builder, v.update(v.e.w, v.e.gradient), Shape{9}, "again"));
    EXPECT_NO_THROW(verify(v.e.graph));
    v.read(v.flat);
    EXPECT_THROW(verify(v.e.graph), Error) << "the view is of the older version";
  }
  Views v;
  v.read(v.update(v.gradient, v.flat));
  EXPECT_NO_THROW(verify(v.e.graph));
  v.read(v.e.gradient);
  EXPECT_THROW(verify(v.e.graph), Error) << "it was updated through its view";
}

TEST(Verify, FindsBytesThatOneOpUpdatesTwice) {
  const auto update = [](Example& e, bool same) {
    GraphBuilder builder(e.graph);
    const ValueId into = builder.add_persistent("g.grad", {DType::f32, Shape{3}}, Role::accumulator),
                  other = builder.add_persistent("b.grad", {DType::f32, Shape{3}}, Role::accumulator),
                  row = builder.add_input("row", {DType::f32, Shape{2}}), gamma = builder.add_input("g", {DType::f32, Shape{3}});
    builder.add(ops::kLayerNormBackward, ops::LayerNormBackwardAttributes{true},
                {e.z, e.x, row, row, gamma, into, same ? into : other}, {"grad", "g.grad", "b.grad"});
    sort_sections(e.graph);
  };
  Example e;
  update(e, false);
  EXPECT_NO_THROW(verify(e.graph));
  expect_fault("updates g.grad twice", [&](Example& each) { update(each, true); });
}

TEST(Verify, FindsTwoRandomOpsAtOneSite) {
  const auto dropout = [](Example& e, const char* line, Section section) {
    GraphBuilder builder(e.graph);
    if (section == Section::forward && e.graph.forward.empty()) e.graph.forward = {{"evaluate"}};
    builder.set_section(section);
    const std::string prefix(e.graph.name(section));
    const ValueId x = builder.add_input(prefix + ".x", {DType::f32, {2, 3}}),
                  ids = builder.add_input(prefix + ".ids", {DType::u32, {2, 2}});
    builder.set_line(line);
    ops::dropout(builder, x, ids, 0.1, 7);
    sort_sections(e.graph);
  };
  const auto once = [&](Example& e) { dropout(e, "h.0.attn", Section::micro); };
  Example e;
  once(e);
  dropout(e, "h.0.mlp", Section::micro);
  dropout(e, "h.0.attn", Section::forward);
  EXPECT_NO_THROW(verify(e.graph));
  expect_fault("h.0.attn (dropout): draws its noise at the site of another op", [&](Example& e) { once(e), once(e); });
  once(e);
  Node& last = e.graph.nodes[NodeId{e.graph.nodes.size() - 1}];
  EXPECT_THROW(verify(e.graph), Error);
  last.clone_of = NodeId{e.graph.nodes.size() - 4};
  EXPECT_NO_THROW(verify(e.graph)) << "a clone draws what its original drew";
}

TEST(Verify, FindsTypesThatDoNotFollow) {
  expect_fault("stated output types differ", [](Example& e) { e.graph.values[e.z].type.shape = {3, 2}; });
  expect_fault("stated output types differ", [](Example& e) { e.graph.values[e.z].type.dtype = DType::bf16; });
}

TEST(Verify, NamesTheLineAndTheOp) {
  expect_fault("h.0.mlp (gelu)", [](Example& e) { e.graph.values[e.g].type.shape = {1}; });
}

TEST(Builder, NamesValuesAfterTheLine) {
  const Example e;
  EXPECT_EQ(e.graph.values[e.y].name, "h.0.mlp");
  EXPECT_EQ(e.graph.values[e.g].name, "h.0.mlp.gelu");
  EXPECT_EQ(e.graph.values[e.z].name, "z");
  EXPECT_EQ(e.graph.nodes[NodeId{0}].line, "h.0.mlp");
  EXPECT_EQ(e.graph.nodes[NodeId{2}].line, "");
  EXPECT_EQ(e.graph.find("h.0.mlp.gelu"), e.g);
  EXPECT_FALSE(e.graph.find("h.1").valid());
}

TEST(Builder, KnowsWhatIsPersistent) {
  const Example e;
  EXPECT_TRUE(e.graph.values[e.w].persistent() && e.graph.values[e.gradient].persistent());
  EXPECT_FALSE(e.graph.values[e.x].persistent() || e.graph.values[e.total].persistent());
  EXPECT_EQ(e.graph.values[e.x].section, Section::micro);
  EXPECT_EQ(e.graph.values[e.total].section, Section::update);
  EXPECT_EQ(e.graph.parameters(), std::vector<ValueId>{e.w});
  EXPECT_TRUE(e.graph.values[e.w].parameter->decay);
}

TEST(Builder, VersionsPointToThePersistentValue) {
  Example e;
  GraphBuilder builder(e.graph);
  const ValueId once = builder.add1(ops::kAccumulate, ops::NoAttributes{}, {e.w, e.gradient}, "once");
  const ValueId twice = builder.add1(ops::kAccumulate, ops::NoAttributes{}, {e.w, once}, "twice");
  for (const ValueId version : {once, twice}) {
    EXPECT_EQ(e.graph.values[version].version_of, e.gradient);
    EXPECT_EQ(e.graph.values[version].role, Role::accumulator);
  }
}

TEST(Builder, RefusesShapesThatDoNotAgree) {
  Example e;
  GraphBuilder builder(e.graph);
  EXPECT_THROW(ops::add(builder, e.x, e.w, "sum"), Error);
  EXPECT_THROW(ops::linear(builder, e.x, e.x, {}, "product"), Error);
  verify(e.graph);
}

TEST(Builder, RandomSitesDependOnTheNameAlone) {
  EXPECT_EQ(random_site("h.3.attn.dropped"), random_site("h.3.attn.dropped"));
  EXPECT_NE(random_site("h.3.attn.dropped"), random_site("h.3.mlp.dropped"));
  EXPECT_NE(random_site("h.3.attn.dropped"), random_site("h.3.attn.attended"));
  EXPECT_NE(random_site("h.12"), random_site("h.21"));
  const auto site_of_dropout = [](std::int64_t batch) {
    Graph graph;
    GraphBuilder builder(graph);
    const ValueId x = builder.add_input("x", {DType::f32, {batch, 3}}), ids = builder.add_input("ids", {DType::u32, {batch, 2}});
    const GraphBuilder::Scope scope(builder, "h.3.attn");
    ops::dropout(builder, x, ids, 0.1, 7);
    return std::pair(graph.nodes[NodeId{0}].site, graph.nodes[NodeId{0}].attributes.as<ops::DropoutAttributes>().key);
  };
  EXPECT_EQ(site_of_dropout(1), site_of_dropout(8));
  EXPECT_EQ(site_of_dropout(1).second, philox_key(7, random_site("h.3.attn.dropped")));
}

TEST(Sections, ForwardPassesHaveNamesOfTheirOwn) {
  Graph graph;
  GraphBuilder builder(graph);
  EXPECT_EQ(builder.begin_forward({"evaluate"}), forward_section(0));
  EXPECT_EQ(builder.begin_forward({"generate"}), forward_section(1));
  for (const char* taken : {"evaluate", "save", "micro", "train"}) EXPECT_THROW(builder.begin_forward({taken}), Error) << taken;
}

TEST(Sections, AreBroughtTogetherWithoutChangingTheOrderWithin) {
  Example e;
  std::vector<NodeId> before = e.graph.section_order(Section::micro);
  std::rotate(e.graph.order.begin(), e.graph.order.end() - 1, e.graph.order.end());
  sort_sections(e.graph);
  EXPECT_EQ(e.graph.section_order(Section::micro), before);
  EXPECT_EQ(e.graph.section_order(Section::update).size(), 1U);
  EXPECT_TRUE(e.graph.section_order(Section::forward).empty());
  verify(e.graph);
}

TEST(Text, IsWhatTheHashIsOf) {
  const Example e;
  EXPECT_EQ(to_text(e.graph),
            "%0 f32(3, 3) w : parameters\n"
            "%1 f32(3, 3) w.grad : gradient accumulators\n"
            "%2 f32(2, 3) x : batch of micro\n"
            "micro: %3 f32(2, 3) h.0.mlp = matmul[transpose_a=false, transpose_b=false, batched=false, bias=false, "
            "accumulate=false, output=f32](%2, %0) @0\n"
            "micro: %4 f32(2, 3) h.0.mlp.gelu = gelu[](%3) @0\n"
            "micro: %5 f32(2, 3) z = add[](%4, %2) @0\n"
            "update: %6 f64(1) update.sum = sum_of_squares[](%1) @0\n");
  EXPECT_EQ(graph_hash(e.graph), graph_hash(Example().graph));
}

TEST(Hash, ChangesWithWhatIsComputed) {
  const std::string hash = graph_hash(Example().graph);
  const auto changed = [&](const std::function<void(Example&)>& change) {
    Example e;
    change(e);
    return graph_hash(e.graph) != hash;
  };
  EXPECT_TRUE(changed([](Example& e) { e.graph.values[e.w].type.shape = {3, 4}; }));
  EXPECT_TRUE(changed([](Example& e) { e.graph.values[e.z].name = "other"; }));
  EXPECT_TRUE(changed([](Example& e) { node(e, 0).attributes = ops::MatmulAttributes{.transpose_b = true}; }));
  EXPECT_TRUE(changed([](Example& e) { std::swap(node(e, 2).inputs[0], node(e, 2).inputs[1]); }));
  EXPECT_TRUE(changed([](Example& e) { node(e, 1).op = &ops::kRelu; }));
  EXPECT_TRUE(changed([](Example& e) { node(e, 1).site = 5; }));
  EXPECT_TRUE(changed([](Example& e) {
    e.graph.forward = {{"evaluate"}};
    node(e, 3).section = Section::forward;
  }));
}

// Seed and site change the noise of a kernel, not its time.
TEST(KernelKeys, OnlyTheTimingKeyLeavesTheNoiseOut) {
  const auto keys = [](const Attributes& attributes) {
    const std::vector<ValueType> inputs{{DType::f32, {2, 3}}, {DType::u32, {2, 2}}};
    const KernelRequest request{.op = &ops::kDropout, .attributes = &attributes, .inputs = inputs, .threads = 2};
    return std::pair(kernel_key(request), timing_key(request));
  };
  const auto a = keys(ops::DropoutAttributes{0.1, {1, 2}}), b = keys(ops::DropoutAttributes{0.1, {1, 3}}),
             c = keys(ops::DropoutAttributes{0.2, {1, 2}});
  EXPECT_EQ(a.first, "dropout[probability=0.1, key=0000000200000001](f32(2, 3), u32(2, 2))x1t2");
  EXPECT_EQ(a.second, "dropout[probability=0.1](f32(2, 3), u32(2, 2))x1t2");
  EXPECT_NE(a.first, b.first);
  EXPECT_EQ(a.second, b.second);
  EXPECT_NE(a.second, c.second);
}

TEST(Attributes, CompareByTypeAndValue) {
  const Attributes a = ops::ScaleAttributes{2}, b = ops::ScaleAttributes{2}, c = ops::ScaleAttributes{3}, d = ops::NoAttributes{};
  EXPECT_TRUE(a == b);
  EXPECT_FALSE(a == c || a == d || a == Attributes());
  EXPECT_TRUE(Attributes() == Attributes());
  EXPECT_EQ(a.text(), "factor=2");
  EXPECT_EQ(d.text(), "");
  EXPECT_THROW(a.as<ops::NoAttributes>(), Error);
}

}  // namespace
}  // namespace plimsoll
