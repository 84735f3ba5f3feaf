// GPT-2 (Radford et al., 2019) as a graph: learned positions, pre-LN blocks, tanh-GELU, tied head, dropout. Parameters carry the
// names of a Hugging Face file, matrices its layout ([inputs, outputs]).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "formats/huggingface.h"
#include "graph/graph.h"
#include "ops/loss/loss.h"

namespace plimsoll {

// The batch shape of each section; a section of batch 0 is left out.
struct BatchShape {
  std::int64_t micro = 0;     // samples of a micro-step
  std::int64_t evaluate = 0;  // samples of an evaluation step
  bool generate = false;      // one sequence, logits of one position
  std::int64_t tokens = 0;    // of a sample: at most the positions of the model
};

// What is fed before a run of micro or evaluate.
struct BatchValues {
  ValueId tokens;         // i32 [batch, tokens]
  ValueId targets;        // i32 [batch, tokens], negative: ignored
  ValueId sample_ids;     // u32 [batch, 2]: epoch, sample
  ValueId inverse_units;  // f32 [1]: one over the valid units of the window
};

struct GenerateValues {
  ValueId tokens;      // i32 [1, tokens]
  ValueId sample_ids;  // u32 [1, 2]; no noise is drawn, it only completes the types
  ValueId position;    // i32 [1]
  ValueId logits;      // f32 [1, vocab]
};

struct ModelGraph {
  Graph graph;
  BatchValues micro, evaluate;
  GenerateValues generate;
  ValueId losses;          // of the section micro
  ValueId evaluate_total;  // f64 [1], persistent: the sum of the losses of an evaluation
};

// `loss`: of the section micro; an evaluation has no terms beside the cross-entropy.
ModelGraph build_gpt2(const Gpt2Config& config, const BatchShape& shape, std::uint64_t seed,
                      const ops::LossAttributes& loss = {});

// A shape by one of the names below; E-CONFIG-PRESET lists them.
Gpt2Config gpt2_preset(std::string_view name);
std::vector<std::string_view> gpt2_preset_names();

std::int64_t parameter_count(const Graph& graph);

}  // namespace plimsoll
