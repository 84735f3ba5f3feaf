#include "models/language_model.h"

namespace plimsoll {

Pass token_pass(GraphBuilder& builder, std::int64_t batch, std::int64_t tokens, const std::string& prefix) {
  Pass pass{.section = builder.section(), .inputs = {}, .losses = {}, .results = {}};
  const auto add = [&](const char* name, ValueType type) {
    pass.inputs.push_back({name, Scope::pass, builder.add_input(prefix + "." + name, std::move(type))});
  };
  add("tokens", {DType::i32, {batch, tokens}});
  add("targets", {DType::i32, {batch, tokens}});
  add("sample_ids", {DType::u32, {batch, 2}});
  LossTerm loss;
  loss.scale = builder.add_input(prefix + ".inverse_units", {DType::f32, Shape{1}});
  pass.losses.push_back(std::move(loss));
  return pass;
}

Pass generate_pass(GraphBuilder& builder, std::int64_t tokens) {
  Pass pass{.section = builder.section(), .inputs = {}, .losses = {}, .results = {}};
  const auto add = [&](const char* name, ValueType type) {
    pass.inputs.push_back({name, Scope::pass, builder.add_input(std::string("generate.") + name, std::move(type))});
  };
  add("tokens", {DType::i32, {1, tokens}});
  add("sample_ids", {DType::u32, {1, 2}});  // no noise is drawn: it only completes the types
  add("position", {DType::i32, Shape{1}});
  return pass;
}

TokenStep token_step(const GraphBuilder& builder, const Pass& pass, bool training) {
  const ValueId tokens = pass.input("tokens");
  return {.tokens = tokens, .sample_ids = pass.input("sample_ids"), .training = training, .length = builder.shape(tokens)[1]};
}

}  // namespace plimsoll
