// What a family builds: one graph with the passes that run over it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/loss/loss.h"

namespace plimsoll {

// How often a field is fed anew.
enum class Scope : std::uint8_t {
  pass,   // before each run of the pass
  window  // once for all micro-steps of an update
};

// What is fed from outside; its type is that of the value. Where it has rows for samples, these are its first axis.
struct Field {
  std::string name;  // "tokens", "targets", "sample_ids", "pixels"
  Scope per = Scope::pass;
  ValueId value;
};

// What a loss is divided by.
enum class Denominator : std::uint8_t {
  units,   // targets of the window that count: not negative
  samples  // of the window
};

// One of the losses whose weighted sum is trained on. The trainer feeds scale = weight / denominator, times the loss scale of
// fp16.
struct LossTerm {
  std::string name = "loss";
  ValueId losses, scale;
  ValueId total;  // f64[1], persistent: where the pass itself adds the losses up, as an evaluation does
  Denominator per = Denominator::units;
  double weight = 1;
};

// A part of the graph that is run by itself. Every node and every value that is not persistent belongs to one.
struct Pass {
  Section section = Section::micro;
  std::vector<Field> inputs;
  std::vector<LossTerm> losses;
  std::vector<ValueId> results;

  // An internal error where there is no such field.
  ValueId input(std::string_view name) const;
};

// Of generation: keys and values of earlier tokens are kept from pass to pass.
struct GenerationShape {
  std::int64_t rows = 0;    // sequences that go together
  std::int64_t prompt = 0;  // tokens of the pass "prefill"; 0: there is none
  std::int64_t slots = 0;   // tokens of a sequence, at most, its prompt included
  std::int64_t chunk = 0;   // tokens of a row in the pass "extend"; 0: there is none
};

// Of a pass over given tokens: the hidden states of all, then logits of some rows at a time.
struct ForwardShape {
  std::int64_t samples = 0;
  std::int64_t rows = 0;
};

// The batch shape of each pass; a pass of batch 0 is left out.
struct BatchShape {
  std::int64_t micro = 0;     // samples of a micro-step
  std::int64_t evaluate = 0;  // samples of an evaluation step
  std::int64_t tokens = 0;    // of a sample of these, and of a forward pass: at most the positions of the model
  GenerationShape generate = {};
  ForwardShape forward = {};
  bool packed = false;  // rows of training and evaluation hold several samples
};

struct BuildOptions {
  std::uint64_t seed = 0;      // of dropout
  ops::LossAttributes loss{};  // of the section micro; an evaluation has no terms beside the cross-entropy
};

struct ModelGraph {
  Graph graph;
  std::vector<Pass> passes;

  // Null where there is none of that name: "train", or a forward pass of the graph.
  const Pass* find(std::string_view name) const;
  // An internal error where there is none.
  const Pass& pass(std::string_view name) const;
};

std::int64_t parameter_count(const Graph& graph);

}  // namespace plimsoll
