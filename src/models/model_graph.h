// The graph that a family builds, with the passes that run over it.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/loss/loss.h"

namespace plimsoll {

// The time at which a field is fed.
enum class Scope : std::uint8_t {
  pass,   // before each run of the pass
  window  // once for all micro-steps of an update
};

// An input fed from outside, of the type of its value. Its first axis has the samples, if it has any.
struct Field {
  std::string name;  // "tokens", "targets", "sample_ids", "pixels"
  Scope per = Scope::pass;
  ValueId value;
};

// The divisor of a loss.
enum class Denominator : std::uint8_t {
  units,   // valid targets of the window (not negative)
  samples  // of the window
};

// One term of the training loss, a weighted sum. The trainer feeds scale = weight / denominator, times the loss scale of fp16.
struct LossTerm {
  std::string name = "loss";
  ValueId losses, scale;
  ValueId total;  // f64[1], persistent: the sum of losses, if the pass itself adds them up, as an evaluation does
  Denominator per = Denominator::units;
  double weight = 1;
};

// A part of the graph that runs by itself. Each node and each transient value belongs to one pass.
struct Pass {
  Section section = Section::micro;
  std::vector<Field> inputs;
  std::vector<LossTerm> losses;
  std::vector<ValueId> results;
  ValueId correct;  // f64 [2], persistent: counts of an evaluation (ops/accuracy); invalid: the model has no classes

  // A missing field is an internal error.
  ValueId input(std::string_view name) const;
};

// The shape of generation: passes keep the keys and values of earlier tokens.
struct GenerationShape {
  std::int64_t rows = 0;    // sequences in one batch
  std::int64_t prompt = 0;  // tokens of the pass "prefill"; 0: no such pass
  std::int64_t slots = 0;   // most tokens of a sequence, prompt included
  std::int64_t chunk = 0;   // tokens of a row in the pass "extend"; 0: no such pass
};

// The shape of a pass over given tokens: the hidden states of all, then logits of some rows at a time.
struct ForwardShape {
  std::int64_t samples = 0;
  std::int64_t rows = 0;
};

// The batch shape of each pass; a pass of batch 0 is left out.
struct BatchShape {
  std::int64_t micro = 0;     // samples of a micro-step
  std::int64_t evaluate = 0;  // samples of an evaluation step
  std::int64_t tokens = 0;    // tokens of a sample, at most the positions of the model; also of a forward pass
  GenerationShape generate = {};
  ForwardShape forward = {};
  bool packed = false;          // rows of training and evaluation hold several samples
  std::int64_t image_size = 0;  // pixels of a side of the data's images; 0: no images, or the model's own size
};

// The statistics of batch normalisation in a training.
struct NormOptions {
  std::int64_t group = 1;        // consecutive samples that share a mean and a variance
  double momentum = 0.1;         // share of a window's statistics in the running ones
  bool running = false;          // layers normalise by the running statistics, which do not move
  std::set<std::string> frozen;  // names of frozen parameters: layers do so as well if their norm is frozen

  // True if the layer of the norm `name` normalises by its running statistics.
  bool fixes(const std::string& name) const {
    return running || (frozen.contains(name + ".weight") && frozen.contains(name + ".bias"));
  }
};

struct BuildOptions {
  std::uint64_t seed = 0;      // of dropout
  ops::LossAttributes loss{};  // of the section micro; an evaluation has the cross-entropy alone
  NormOptions norm{};
};

struct ModelGraph {
  Graph graph;
  std::vector<Pass> passes;

  // Null for an unknown name: "train", or a forward pass of the graph.
  const Pass* find(std::string_view name) const;
  // An unknown name is an internal error.
  const Pass& pass(std::string_view name) const;
};

std::int64_t parameter_count(const Graph& graph);

}  // namespace plimsoll
