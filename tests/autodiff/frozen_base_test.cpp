// The matrices that are stored in blocks, their products, and gradients through them: those of the decoded numbers.
#include "autodiff/frozen_base.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>

#include "autodiff/small_gpt2.h"
#include "models/all.h"
#include "models/decoder/decoder.h"
#include "ops/block_matmul/block_matmul.h"
#include "ops/cases/stored_matrix.h"
#include "ops/matmul/matmul.h"

namespace plimsoll::test {
namespace {

int count(const Graph& graph, const OpDef& op) {
  int found = 0;
  for (const Node& node : graph.nodes) found += node.op == &op ? 1 : 0;
  return found;
}

std::set<std::string> names(const Graph& graph, const std::vector<ValueId>& values) {
  std::set<std::string> result;
  for (const ValueId id : values) result.emplace(graph.values[id].name.text());
  return result;
}

Graph small_llama(bool tied, std::int64_t width = 16, std::int64_t evaluate = 2) {
  DecoderConfig config;
  config.layers = 1, config.width = width, config.heads = 4, config.kv_heads = 2, config.mlp_width = 24, config.vocab = 50;
  config.tied = tied;
  return build_decoder(config, {2, evaluate, 8}, {}).graph;
}

void freeze(Graph& graph, const std::vector<ValueId>& values) {
  for (const ValueId id : values) graph.values[id].parameter->kind = ParameterKind::frozen;
}

TEST(FrozenBase, LinearMatricesAreThoseOfBlocks) {
  const Graph gpt2 = Model::Built(small_config(0)).graph;
  EXPECT_EQ(names(gpt2, linear_matrices(gpt2)),
            (std::set<std::string>{"h.0.attn.c_attn.weight", "h.0.attn.c_proj.weight", "h.0.mlp.c_fc.weight",
                                   "h.0.mlp.c_proj.weight", "h.1.attn.c_attn.weight", "h.1.attn.c_proj.weight",
                                   "h.1.mlp.c_fc.weight", "h.1.mlp.c_proj.weight"}));
  for (const bool tied : {false, true}) {
    const Graph llama = small_llama(tied);
    std::set<std::string> expected;
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
                             "mlp.up_proj", "mlp.down_proj"}) {
      expected.insert("model.layers.0." + std::string(name) + ".weight");
    }
    EXPECT_EQ(names(llama, linear_matrices(llama)), expected);
  }
}

TEST(FrozenBase, OfNothingFrozenIsNothing) {
  Graph graph = small_llama(true);
  const std::string before = graph_hash(graph);
  EXPECT_EQ(store_base(graph, {BaseFormat::nf4}), 0u);
  EXPECT_EQ(store_base(graph, {}), 0u);
  freeze_base(graph, {});
  EXPECT_EQ(graph_hash(graph), before);
}

TEST(FrozenBase, OnlyWhatIsFrozenIsStoredSo) {
  Graph graph = small_llama(true);
  const std::vector<ValueId> linear = linear_matrices(graph);
  freeze(graph, {linear[0], linear[3], graph.find("model.embed_tokens.weight"), graph.find("model.norm.weight")});
  const int products = count(graph, ops::kMatmul);
  EXPECT_EQ(store_base(graph, {BaseFormat::int8}), 2u);
  EXPECT_EQ(count(graph, ops::kBlockMatmul), 4);  // of the training and of the evaluation
  EXPECT_EQ(count(graph, ops::kMatmul), products - 4);
  const Value& stored = graph.values[linear[0]];
  EXPECT_EQ(*stored.parameter->blocks, (BlockMatrix{BlockFormat::int8, 16, 16}));
  EXPECT_EQ(stored.type, (ValueType{DType::u8, Shape{16 * 16 + 16 * 4}}));
  EXPECT_EQ(tensor_shape(stored), (Shape{16, 16}));
  EXPECT_EQ(graph.values[linear[1]].type.dtype, DType::f32);
}

TEST(FrozenBase, AllOfItWhereNothingTrains) {
  for (const FrozenBase& base : {FrozenBase{BaseFormat::bf16}, {BaseFormat::nf4}, {BaseFormat::nf4, false}}) {
    Graph graph = small_llama(false);
    const std::vector<ValueId> linear = linear_matrices(graph);
    freeze_base(graph, base);
    EXPECT_EQ(count(graph, ops::kMatmul), 0);
    for (const ValueId id : linear) {
      const Value& value = graph.values[id];
      EXPECT_EQ(value.parameter->kind, ParameterKind::frozen);
      EXPECT_EQ(value.parameter->blocks.has_value(), base.format == BaseFormat::nf4);
      if (base.format == BaseFormat::nf4) {
        EXPECT_EQ(value.parameter->blocks->format, base.nested ? BlockFormat::nf4_nested : BlockFormat::nf4);
      }
    }
    EXPECT_EQ(graph.values[graph.find("lm_head.weight")].type.dtype, DType::f32);
  }
}

// The decoded numbers of a stored matrix.
Numbers meant(const Value& value, const Numbers& stored) { return elements_of(value.parameter->blocks, stored); }

// The gradients of all trained parameters: biases, norms and embeddings.
TEST(FrozenBase, GradientsAreThoseOfTheNumbersItMeans) {
  for (const FrozenBase& base : {FrozenBase{BaseFormat::nf4}, {BaseFormat::nf4, false}, {BaseFormat::int8}, {BaseFormat::bf16}}) {
    Model::Built stored(small_config(0)), plain(small_config(0));
    freeze(plain.graph, linear_matrices(plain.graph));
    freeze_base(stored.graph, base);
    add_training(stored.graph, stored.losses, {}, 0);
    add_training(plain.graph, plain.losses, {}, 0);
    const Model model(small_config(0));  // for its numbers
    DenseRun of_stored(stored.graph), of_plain(plain.graph);
    const std::vector<ValueId> ids = stored.graph.parameters();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const Value& value = stored.graph.values[ids[i]];
      Numbers numbers = model.parameters[i];
      if (value.parameter->blocks) fill_blocks(*value.parameter->blocks, numbers);
      if (value.type.dtype == DType::bf16) numbers = round_to(numbers, DType::bf16);
      of_stored.set(ids[i], numbers);
      of_plain.set(plain.graph.find(value.name.text()), meant(value, numbers));
    }
    const std::vector<Numbers> batch = model.batch(3);
    const auto run = [&](DenseRun& dense, const Graph& graph) {
      const BatchValues fed{graph.find("batch.tokens"), graph.find("batch.targets"), graph.find("batch.sample_ids"),
                            graph.find("batch.inverse_units")};
      Model::feed([&](ValueId id, const Numbers& numbers) { dense.set(id, numbers); }, fed, batch);
      dense.run(Section::micro, /*window_start=*/true);
    };
    run(of_stored, stored.graph), run(of_plain, plain.graph);
    int compared = 0;
    for (const ValueId id : ids) {
      const std::string name = std::string(stored.graph.values[id].name.text()) + ".grad";
      const ValueId gradient = stored.graph.find(name);
      if (!gradient.valid()) continue;
      const Numbers actual = of_stored.get(gradient), expected = of_plain.get(plain.graph.find(name));
      double difference = 0, size = 0;
      for (std::size_t i = 0; i < actual.size(); ++i) {
        difference += std::pow(actual[i] - expected[i], 2), size += std::pow(expected[i], 2);
      }
      EXPECT_LE(std::sqrt(difference), 1e-6 * std::sqrt(size)) << name;
      ++compared;
    }
    EXPECT_GE(compared, 20);
  }
}

// Lookups, the loss and its gradient, over a table in blocks and over its decoded numbers.
TEST(FrozenBase, TablesAreReadInBlocks) {
  for (const BlockFormat format : {BlockFormat::nf4_nested, BlockFormat::int8, BlockFormat::q8_0}) {
    Graph stored = small_llama(true, 32, 0), plain = small_llama(true, 32, 0);
    const ValueId table = plain.find("model.embed_tokens.weight");
    for (Graph* graph : {&stored, &plain}) freeze(*graph, {table});
    EXPECT_TRUE(store_frozen(stored, table, format));
    EXPECT_TRUE(stored.values[table].parameter->blocks.has_value());
    const auto losses_of = [](const Graph& graph) { return graph.find("lm_head.losses"); };
    add_training(stored, losses_of(stored), {}, 0);
    add_training(plain, losses_of(plain), {}, 0);
    DenseRun of_stored(stored), of_plain(plain);
    for (const ValueId id : stored.parameters()) {
      const Value& value = stored.values[id];
      Numbers numbers = random_numbers(plain.values[plain.find(value.name.text())].type, id.index, {-0.5, 0.5});
      if (value.parameter->blocks) fill_blocks(*value.parameter->blocks, numbers);
      of_stored.set(id, numbers);
      of_plain.set(plain.find(value.name.text()), meant(value, numbers));
    }
    for (const auto& [run, graph] : {std::pair{&of_stored, &stored}, {&of_plain, &plain}}) {
      const auto set = [&, dense = run, of = graph](const char* name, Fill fill) {
        dense->set(of->find(name), random_numbers(of->values[of->find(name)].type, 5, fill));
      };
      set("batch.tokens", {0, 50}), set("batch.targets", {-1, 50}), set("batch.sample_ids", {0, 9}),
          set("batch.inverse_units", {1, 1});
      run->run(Section::micro, /*window_start=*/true);
    }
    for (const char* name : {"model.norm.weight.grad", "model.layers.0.self_attn.q_proj.weight.grad"}) {
      EXPECT_EQ(of_stored.get(stored.find(name)), of_plain.get(plain.find(name))) << name;
    }
  }
}

// The embedding of GPT-2 adds positions, and has no kernel for blocks.
TEST(FrozenBase, WhatCannotReadBlocksKeepsNumbers) {
  Graph graph = Model::Built(small_config(0)).graph;
  const ValueId table = graph.find("wte.weight");
  freeze(graph, {table});
  const std::string before = graph_hash(graph);
  EXPECT_FALSE(store_frozen(graph, table, BlockFormat::nf4));
  EXPECT_EQ(graph_hash(graph), before);
}

}  // namespace
}  // namespace plimsoll::test
