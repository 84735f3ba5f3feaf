// Answers of a training to held-out prompts, at each evaluation. The passes that answer have a cache of their own in the arena
// and share everything else with the training. They change no decision of its plan: where they do not fit beside it, they are
// left out.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/model_graph.h"
#include "ops/op_catalogue.h"
#include "plan/plan.h"
#include "prepare/held_out_prompts.h"
#include "prepare/planning.h"

namespace plimsoll {

// The shape of the passes of these decisions; no rows: none.
GenerationShape shape_of(const AnswerDecision& answers);

// The prompts of a configuration. Its alternatives have the same ones.
struct AskedPrompts {
  HeldOutPrompts found;
  std::string why_not;  // the reason why none are answered; empty otherwise, and if none are asked for
};
AskedPrompts asked_prompts(const Config& config, const PlanningInput& input);

struct PlannedAnswers {
  std::optional<Plan> plan;  // the given one with the passes that answer
  std::string left_out;      // the reason if there is none; empty if no samples are asked for
};
PlannedAnswers plan_answers(const Config& config, const PlanningInput& input, const Plan& plan, OpCatalogue& catalogue,
                            const AskedPrompts& asked);

// The most seconds in which a plan answers its prompts once.
double answer_seconds(const Config& config, const Plan& plan);

// The object `samples` of plan.json: of a plan with answers, or with the reason for leaving them out.
nlohmann::json samples_json(const Plan& plan, const HeldOutPrompts& prompts);
nlohmann::json samples_left_out(const std::string& reason);

}  // namespace plimsoll
