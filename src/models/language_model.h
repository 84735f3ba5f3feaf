// The passes of a model that reads tokens and predicts the next one, over what its family builds: hidden states, and the matrix
// whose rows score the tokens. Their fields:
//   train, evaluate  tokens i32 [batch, tokens], targets likewise (negative: ignored), sample_ids u32 [batch, 2] (epoch, sample);
//                    of packed rows segments i32 [batch, tokens] (the sample in the row that a token belongs to), positions
//                    likewise (in that sample), and sample_ids u32 [batch, tokens, 3] (epoch, sample, position)
//   prefill          tokens i32 [rows, prompt], lengths i32 [rows], last i32 [rows] (the place of each row's last token);
//                    results: logits f32 [rows, vocab] of the last tokens. What lies past a length is not read.
//   extend           tokens i32 [rows, chunk], positions likewise; results: logits f32 [rows, vocab] of each row's last token.
//                    A row with fewer tokens repeats its last one, with its position.
//   decode           the same for one token
//   forward          tokens i32 [samples, tokens], segments likewise: a token sees those of its own number
//   logits           index i32 [rows] of the samples' tokens, one after the other; results: logits f32 [rows, vocab]
// Passes without noise also have sample_ids, which may hold anything. Prefill, extend and decode share their caches; logits read
// the hidden states of forward.
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

// The keys and values of earlier tokens in a block: [rows, slots, width] each.
struct LayerCache {
  ValueId keys, values;
};
struct LayerCacheShape {
  std::int64_t width = 0;
  std::int64_t window = 0;  // number of visible positions; 0: all
};

// The inputs of a family's model for a run over tokens.
struct TokenStep {
  ValueId tokens;           // i32 [b, t]
  ValueId sample_ids;       // u32 [b, 2], or u32 [b, t, 3] for each token
  bool training = false;    // with noise
  std::int64_t length = 0;  // number of tokens that positions are planned for
  ValueId segments;         // i32 [b, t]: a token sees tokens of its own segment; invalid: all are one segment

  // One cache for each block in generation, else empty. A pass with `lengths` i32 [b] fills them; a pass with `positions` reads
  // and extends them.
  std::span<LayerCache> caches;
  ValueId lengths;
  ValueId positions;  // i32 [b, t]; invalid: the place of each token in its row

  bool decodes() const { return !caches.empty() && positions.valid(); }
};

// The parts of a family's model that the passes use.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  // [b, t, width], after the last norm.
  virtual ValueId hidden(GraphBuilder& builder, const TokenStep& step) const = 0;
  // [vocab, width].
  virtual ValueId head() const = 0;
  virtual std::vector<LayerCacheShape> caches() const = 0;
};

// Appends the passes to a graph that holds only the parameters of `model`.
void add_language_passes(ModelGraph& graph, GraphBuilder& builder, const LanguageModel& model, const BatchShape& shape,
                         const BuildOptions& options);

// The operands of a block's attention over the tokens of the step or over its caches. `qkv`: one packed value or three, according
// to the layout, with rotary positions applied.
struct AttentionParts {
  std::vector<ValueId> qkv;
  ops::QkvLayout layout;
  std::int64_t window = 0;
  double dropout = 0;
};
ValueId attend(GraphBuilder& builder, AttentionParts parts, const TokenStep& step, std::size_t layer, std::uint64_t seed);

}  // namespace plimsoll
