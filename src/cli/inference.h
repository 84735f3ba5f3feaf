// The common course of commands that run a model without a configuration: settings, model, plan, run and result.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "base/memory_limit.h"
#include "cli/commands.h"
#include "cli/settings.h"
#include "infer/inference_run.h"
#include "models/family.h"

namespace plimsoll {

class InferenceCommand {
 public:
  // Finds the model. The budget limits the memory of this process until the run begins. E-USAGE for other keys than budgets and
  // quantize.base.
  InferenceCommand(const InferenceArguments& arguments, std::string_view name);

  // E-MODEL-TOKENS: the model reads no tokens.
  void require_tokens() const;
  const ModelSource& model() const { return model_; }
  const ModelFacts& facts() const { return facts_; }
  // Plans a graph of the first size that fits, and loads the weights. `heap`: bytes in addition to the plan's.
  InferenceRun run(decltype(InferenceRequest::build) build, std::vector<std::int64_t> sizes, Bytes heap);

 private:
  const InferenceArguments& arguments_;
  InferenceSettings settings_;
  std::optional<MemoryLimit> limit_;
  ModelSource model_;
  ModelFacts facts_;
  std::optional<InferenceRoom> room_;
};

// Prints the result of a run as JSON, with its planned and measured bytes.
// Names the evaluation of the weights that a command opens, if `weights` is a run with best weights.
void say_best(const std::string& weights);

void print_result(nlohmann::json object, const InferenceRun& run);

}  // namespace plimsoll
