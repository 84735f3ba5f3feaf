// The passes of a model that reads tokens and predicts the next one, over what its family builds: hidden states, and the matrix
// whose rows score the tokens. Fields of an evaluation and of a micro-step: tokens i32 [batch, tokens], targets likewise
// (negative: ignored), sample_ids u32 [batch, 2] (epoch, sample).
#pragma once

#include <string>
#include <utility>

#include "graph/builder.h"
#include "models/model_graph.h"
#include "ops/embedding/embedding.h"
#include "ops/loss/loss.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"

namespace plimsoll {

// How a family runs over tokens.
struct TokenStep {
  ValueId tokens;           // i32 [b, t]
  ValueId sample_ids;       // u32 [b, 2]
  bool training = false;    // noise is drawn
  std::int64_t length = 0;  // tokens that positions are planned for
  ValueId positions;        // i32 [b, t]; invalid: 0, 1, ...
  ValueId segments;         // i32 [b, t]: a token sees those of its own number; invalid: all are one
};

Pass token_pass(GraphBuilder& builder, std::int64_t batch, std::int64_t tokens, const std::string& prefix);
Pass generate_pass(GraphBuilder& builder, std::int64_t tokens);
TokenStep token_step(const GraphBuilder& builder, const Pass& pass, bool training);

// `Model`: hidden(builder, TokenStep) is [b, t, width], after the last norm; head() the matrix [vocab, width].
template <class Model>
ValueId token_losses(GraphBuilder& builder, const Model& model, const Pass& pass, bool training,
                     const ops::LossAttributes& loss) {
  const ValueId h = model.hidden(builder, token_step(builder, pass, training));
  const GraphBuilder::Scope scope(builder, "lm_head");
  return ops::linear_cross_entropy(builder, h, model.head(), pass.input("targets"), pass.losses.front().scale, loss);
}

// Appends the passes to a graph that holds the parameters of `model` alone.
template <class Model>
void add_language_passes(ModelGraph& graph, GraphBuilder& builder, const Model& model, const BatchShape& shape,
                         const BuildOptions& options) {
  if (shape.evaluate > 0) {
    builder.begin_forward({"evaluate", /*sums=*/true});
    const ValueId total = builder.add_persistent("evaluate.total", {DType::f64, Shape{1}}, Role::output);
    Pass pass = token_pass(builder, shape.evaluate, shape.tokens, "evaluate");
    LossTerm& loss = pass.losses.front();
    loss.losses = token_losses(builder, model, pass, /*training=*/false, {});
    loss.total = total;
    builder.add1(ops::kSumLosses, ops::NoAttributes{}, {loss.losses, total}, "evaluate.total");
    graph.passes.push_back(std::move(pass));
  }
  if (shape.generate) {
    builder.begin_forward({"generate"});
    Pass pass = generate_pass(builder, shape.tokens);
    const ValueId h = model.hidden(builder, token_step(builder, pass, /*training=*/false));
    const GraphBuilder::Scope scope(builder, "lm_head");
    const ValueId row = builder.add1(ops::kSelectRow, ops::NoAttributes{}, {h, pass.input("position")}, "row");
    const ValueId logits = ops::matmul(builder, row, model.head(), {.transpose_b = true}, "logits");
    pass.results.push_back(logits);
    graph.graph.values[logits].role = Role::output;
    graph.graph.results.push_back(logits);
    graph.passes.push_back(std::move(pass));
  }
  // Last, so that what training appends and removes leaves the ids above alone.
  if (shape.micro > 0) {
    builder.set_section(Section::micro);
    Pass pass = token_pass(builder, shape.micro, shape.tokens, "batch");
    pass.losses.front().losses = token_losses(builder, model, pass, /*training=*/true, options.loss);
    graph.passes.push_back(std::move(pass));
  }
  sort_sections(graph.graph);
}

}  // namespace plimsoll
