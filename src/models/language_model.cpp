#include "models/language_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "ops/cache/cache.h"
#include "ops/reduce/reduce.h"
#include "ops/score/score.h"
#include "ops/shape/shape_ops.h"

namespace plimsoll {
namespace {

class PassBuilder {
 public:
  PassBuilder(ModelGraph& graph, GraphBuilder& builder, const LanguageModel& model, const BatchShape& shape,
              const BuildOptions& options)
      : graph_(graph), builder_(builder), model_(model), shape_(shape), options_(options) {}

  void evaluate() {
    builder_.begin_forward({"evaluate", /*sums=*/true});
    const ValueId total = builder_.add_persistent("evaluate.total", {DType::f64, Shape{1}}, Role::output);
    Pass pass = token_pass(shape_.evaluate, "evaluate");
    LossTerm& loss = pass.losses.front();
    loss.losses = losses(pass, /*training=*/false, {});
    loss.total = total;
    builder_.add1(ops::kSumLosses, ops::NoAttributes{}, {loss.losses, total}, "evaluate.total");
    graph_.passes.push_back(std::move(pass));
  }

  void train() {
    builder_.set_section(Section::micro);
    Pass pass = token_pass(shape_.micro, "batch");
    pass.losses.front().losses = losses(pass, /*training=*/true, options_.loss);
    graph_.passes.push_back(std::move(pass));
  }

  void generate() {
    std::vector<LayerCache> caches;
    const std::int64_t rows = shape_.generate.rows;
    for (const LayerCacheShape& each : model_.caches()) {
      const std::int64_t slots = each.window > 0 ? std::min(each.window, shape_.generate.slots) : shape_.generate.slots;
      const auto add = [&](const char* what) {
        const std::string name = fmt::format("cache.{}.{}", caches.size(), what);
        return builder_.add_persistent(name, {DType::f32, {rows, slots, each.width}}, Role::cache);
      };
      const ValueId keys = add("keys");
      caches.push_back({keys, add("values")});
    }
    if (shape_.generate.prompt > 0) prefill(caches);
    if (shape_.generate.chunk > 0) go_on("extend", shape_.generate.chunk, caches);
    go_on("decode", 1, caches);
  }

  void forward() {
    const std::int64_t samples = shape_.forward.samples, tokens = shape_.tokens;
    builder_.begin_forward({"forward"});
    Pass pass = begin("forward", samples, tokens);
    add_input(pass, "segments", {DType::i32, {samples, tokens}});
    TokenStep step = step_of(pass, /*training=*/false);
    step.segments = pass.input("segments");
    const ValueId hidden = model_.hidden(builder_, step);
    const ValueId lengths = add_input(pass, "lengths", {DType::i32, Shape{samples}});
    const ValueId kept = builder_.add_persistent("hidden", {DType::f32, builder_.shape(hidden)}, Role::cache);
    ops::cache_rows(builder_, hidden, /*begin=*/0, lengths, kept, "hidden.kept");
    graph_.passes.push_back(std::move(pass));

    builder_.begin_forward({"logits"});
    pass = Pass{.section = builder_.section(), .inputs = {}, .losses = {}, .results = {}};
    const ValueId index = add_input(pass, "index", {DType::i32, Shape{shape_.forward.rows}});
    score(pass, ops::gather_rows(builder_, kept, index, "rows"));
  }

 private:
  ValueId add_input(Pass& pass, const std::string& name, ValueType type) {
    const ValueId value = builder_.add_input(prefix_ + "." + name, std::move(type));
    pass.inputs.push_back({name, Scope::pass, value});
    return value;
  }

  Pass begin(const std::string& prefix, std::int64_t batch, std::int64_t tokens) {
    prefix_ = prefix;
    Pass pass{.section = builder_.section(), .inputs = {}, .losses = {}, .results = {}};
    add_input(pass, "tokens", {DType::i32, {batch, tokens}});
    add_input(pass, "sample_ids", {DType::u32, {batch, 2}});
    return pass;
  }

  Pass token_pass(std::int64_t batch, const std::string& prefix) {
    prefix_ = prefix;
    Pass pass{.section = builder_.section(), .inputs = {}, .losses = {}, .results = {}};
    add_input(pass, "tokens", {DType::i32, {batch, shape_.tokens}});
    add_input(pass, "targets", {DType::i32, {batch, shape_.tokens}});
    if (shape_.packed) {
      for (const char* name : {"segments", "positions"}) add_input(pass, name, {DType::i32, {batch, shape_.tokens}});
      add_input(pass, "sample_ids", {DType::u32, {batch, shape_.tokens, 3}});
    } else {
      add_input(pass, "sample_ids", {DType::u32, {batch, 2}});
    }
    LossTerm loss;
    loss.scale = builder_.add_input(prefix + ".inverse_units", {DType::f32, Shape{1}});
    pass.losses.push_back(std::move(loss));
    return pass;
  }

  TokenStep step_of(const Pass& pass, bool training) const {
    TokenStep step;
    step.tokens = pass.input("tokens");
    step.sample_ids = pass.input("sample_ids");
    step.training = training;
    step.length = builder_.shape(step.tokens)[1];
    return step;
  }

  ValueId losses(const Pass& pass, bool training, const ops::LossAttributes& loss) {
    TokenStep step = step_of(pass, training);
    if (shape_.packed) step.segments = pass.input("segments"), step.positions = pass.input("positions");
    const ValueId hidden = model_.hidden(builder_, step);
    const GraphBuilder::Scope scope(builder_, "lm_head");
    return ops::linear_cross_entropy(builder_, hidden, model_.head(), pass.input("targets"), pass.losses.front().scale, loss);
  }

  // Ends the pass with its result: the logits of rows [n, width].
  void score(Pass pass, ValueId rows) {
    const GraphBuilder::Scope scope(builder_, "lm_head");
    const ValueId logits = ops::score(builder_, rows, model_.head(), "logits");
    pass.results.push_back(logits);
    graph_.graph.values[logits].role = Role::output;
    graph_.graph.results.push_back(logits);
    graph_.passes.push_back(std::move(pass));
  }

  void prefill(std::vector<LayerCache> caches) {
    const std::int64_t rows = shape_.generate.rows;
    builder_.begin_forward({"prefill"});
    Pass pass = begin("prefill", rows, shape_.generate.prompt);
    TokenStep step = step_of(pass, /*training=*/false);
    step.length = shape_.generate.slots;
    step.caches = caches;
    step.lengths = add_input(pass, "lengths", {DType::i32, Shape{rows}});
    const ValueId last = add_input(pass, "last", {DType::i32, Shape{rows}});
    const ValueId hidden = model_.hidden(builder_, step);
    score(std::move(pass), ops::gather_rows(builder_, hidden, last, "last"));
  }

  // A pass over the next `tokens` tokens of each row, after those in the caches.
  void go_on(const char* name, std::int64_t tokens, std::vector<LayerCache> caches) {
    const std::int64_t rows = shape_.generate.rows;
    builder_.begin_forward({name});
    Pass pass = begin(name, rows, tokens);
    TokenStep step = step_of(pass, /*training=*/false);
    step.length = shape_.generate.slots;
    step.caches = caches;
    step.positions = add_input(pass, "positions", {DType::i32, {rows, tokens}});
    const ValueId hidden = model_.hidden(builder_, step);
    score(std::move(pass), ops::columns(builder_, ops::reshape(builder_, hidden, {rows, tokens * width_of(hidden)}, "tokens"),
                                        (tokens - 1) * width_of(hidden), tokens * width_of(hidden), "last"));
  }
  std::int64_t width_of(ValueId hidden) const { return builder_.shape(hidden)[2]; }

  ModelGraph& graph_;
  GraphBuilder& builder_;
  const LanguageModel& model_;
  const BatchShape& shape_;
  const BuildOptions& options_;
  std::string prefix_;
};

}  // namespace

// The training pass comes last: training appends and removes nodes, and the ids above stay valid.
void add_language_passes(ModelGraph& graph, GraphBuilder& builder, const LanguageModel& model, const BatchShape& shape,
                         const BuildOptions& options) {
  PassBuilder passes(graph, builder, model, shape, options);
  if (shape.evaluate > 0) passes.evaluate();
  if (shape.generate.rows > 0) passes.generate();
  if (shape.forward.samples > 0) passes.forward();
  if (shape.micro > 0) passes.train();
  sort_sections(graph.graph);
}

ValueId attend(GraphBuilder& builder, AttentionParts parts, const TokenStep& step, std::size_t layer, std::uint64_t seed) {
  if (step.decodes()) {
    LayerCache& cache = step.caches[layer];
    const std::int64_t window = std::min(parts.window, builder.shape(cache.keys)[1]);
    return ops::cached_attention(builder, std::move(parts.qkv), step.positions, cache.keys, cache.values,
                                 {.layout = parts.layout, .window = window});
  }
  if (!step.caches.empty()) {
    LayerCache& cache = step.caches[layer];
    const ValueId first = parts.qkv.front(), last = parts.qkv.back(), keys = parts.qkv[parts.qkv.size() / 2];
    const std::int64_t width = parts.layout.separate ? 0 : parts.layout.queries(builder.shape(first))[2];
    const std::int64_t kv_width = parts.layout.separate ? 0 : builder.shape(cache.keys)[2];
    cache.keys = ops::cache_rows(builder, keys, width, step.lengths, cache.keys, "keys");
    cache.values = ops::cache_rows(builder, last, width + kv_width, step.lengths, cache.values, "values");
  }
  return ops::attention(builder, std::move(parts.qkv), step.sample_ids, step.segments,
                        {.layout = parts.layout, .window = parts.window, .dropout = step.training ? parts.dropout : 0}, seed);
}

}  // namespace plimsoll
