// The passes of a model that reads tokens and predicts the next one, over what its family builds: hidden states, and the matrix
// whose rows score the tokens. Their fields:
//   train, evaluate  tokens i32 [batch, tokens], targets likewise (negative: ignored), sample_ids u32 [batch, 2] (epoch, sample);
//                    of packed rows segments i32 [batch, tokens] (the sample in the row that a token belongs to), positions
//                    likewise (in that sample), and sample_ids u32 [batch, tokens, 3] (epoch, sample, position)
//   prefill          tokens i32 [rows, prompt], lengths i32 [rows], last i32 [rows] (the place of each row's last token);
//                    results: logits f32 [rows, vocab] of the last tokens. What lies past a length is not read.
//   extend           tokens i32 [rows, chunk], positions likewise; results: logits f32 [rows, vocab] of each row's last token.
//                    A row with fewer tokens repeats its last one, with its position.
//   decode           the same of one token
//   forward          tokens i32 [samples, tokens], segments likewise: a token sees those of its own number
//   logits           index i32 [rows] of the samples' tokens, one after the other; results: logits f32 [rows, vocab]
// Passes without noise also have sample_ids, which may hold anything. Prefill, extend and decode go on from each other's caches,
// logits from the hidden states of forward.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "graph/builder.h"
#include "models/model_graph.h"
#include "ops/attention/attention.h"
#include "ops/loss/loss.h"

namespace plimsoll {

// What a block keeps of earlier tokens: [rows, slots, width] each.
struct LayerCache {
  ValueId keys, values;
};
struct LayerCacheShape {
  std::int64_t width = 0;
  std::int64_t window = 0;  // positions that are seen; 0: all
};

// How a family runs over tokens.
struct TokenStep {
  ValueId tokens;           // i32 [b, t]
  ValueId sample_ids;       // u32 [b, 2], or of tokens u32 [b, t, 3]
  bool training = false;    // noise is drawn
  std::int64_t length = 0;  // tokens that positions are planned for
  ValueId segments;         // i32 [b, t]: a token sees those of its own number; invalid: all are one

  // Of generation, one for each block; empty: none. With `lengths` i32 [b] they are filled, with `positions` they are read and go
  // on.
  std::span<LayerCache> caches;
  ValueId lengths;
  ValueId positions;  // i32 [b, t]; invalid: each token stands at its place in the row

  bool decodes() const { return !caches.empty() && positions.valid(); }
};

// What the passes ask of a family's model.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  // [b, t, width], after the last norm.
  virtual ValueId hidden(GraphBuilder& builder, const TokenStep& step) const = 0;
  // [vocab, width].
  virtual ValueId head() const = 0;
  virtual std::vector<LayerCacheShape> caches() const = 0;
};

// Appends the passes to a graph that holds the parameters of `model` alone.
void add_language_passes(ModelGraph& graph, GraphBuilder& builder, const LanguageModel& model, const BatchShape& shape,
                         const BuildOptions& options);

// Attention of a block as the step asks for it: to the tokens of the step, or to its caches. `qkv` are the operands, as many as
// the layout says, after positions have turned them.
struct AttentionParts {
  std::vector<ValueId> qkv;
  ops::QkvLayout layout;
  std::int64_t window = 0;
  double dropout = 0;
};
ValueId attend(GraphBuilder& builder, AttentionParts parts, const TokenStep& step, std::size_t layer, std::uint64_t seed);

}  // namespace plimsoll
