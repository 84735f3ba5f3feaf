// Answers of a training to held-out prompts: greedy, with the present weights, over the caches of the plan.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "infer/generation.h"
#include "infer/vocabulary.h"
#include "prepare/held_out_prompts.h"
#include "prepare/training_graph.h"
#include "train/metrics.h"
#include "train/trainer.h"

namespace plimsoll {

class RunAnswers {
 public:
  // Reads the texts of all tokens. References outlive this.
  RunAnswers(const Config& config, HeldOutPrompts prompts, const TrainingGraph& model, const Graph& graph);

  // `stops`: asked before each pass; true ends all answers, and none is returned. An answer also ends where the model's logits
  // are not finite.
  std::vector<Answer> answer(Trainer& trainer, const std::function<bool()>& stops) const;

 private:
  std::string answer(Trainer& trainer, const HeldOutPrompt& prompt, const std::function<bool()>& stops) const;

  HeldOutPrompts prompts_;
  const TrainingGraph& model_;
  const Graph& graph_;
  Vocabulary vocabulary_;
  std::int64_t context_, rows_;  // tokens of the cache; of the vocabulary that the model knows
};

}  // namespace plimsoll
