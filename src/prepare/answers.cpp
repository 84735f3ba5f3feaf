#include "prepare/answers.h"

#include <fmt/core.h>

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ceil_div.h"
#include "models/family.h"
#include "plan/build_plan.h"
#include "prepare/requests.h"
#include "prepare/run_length.h"
#include "prepare/training_graph.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::int64_t kChunk = 64;  // as in a chat
constexpr const char* kSeveralRanks = "several ranks train";
constexpr const char* kLittleMemory = "there was too little memory for planning them";

AnswerDecision decision_of(const Config& config, const HeldOutPrompts& prompts) {
  const std::int64_t slots = config.model.context;
  return {slots, std::min(slots, kChunk), align_up(prompts_heap(config, prompts), kPage)};
}

// The reason that is known before planning; empty if there is none.
std::string why_never(const Config& config, const PlanningInput& input) {
  const ModelFacts facts = facts_of(config.model.config);
  if (facts.vocab == 0) return fmt::format("a {} reads no tokens", config.model.config.family().kind);
  if (!input.facts.validation) return "there are no validation data";
  if (config.device == DeviceChoice::cuda) return "kernels run on a GPU";
  if (config.device != DeviceChoice::cpu) return "kernels run on a simulated device";
  if (input.facts.share.ranks > 1) return kSeveralRanks;
  if (!facts.bytes && vocabulary_of(config).empty()) return "the tokens have no texts: there is no vocabulary";
  if (input.request.floor_only) return kLittleMemory;
  return "";
}

bool same_types(const Graph& a, const std::vector<ValueId>& of_a, const Graph& b, const std::vector<ValueId>& of_b) {
  return std::ranges::equal(of_a, of_b, [&](ValueId x, ValueId y) {
    const Value &one = a.values[x], &other = b.values[y];
    return one.type == other.type && one.role == other.role && one.name == other.name;
  });
}

bool answers(const Graph& graph, Section section) {
  const std::string_view name = graph.name(section);
  return name == "extend" || name == "decode";
}

// The numbers of a training's nodes in the graph that also answers, in the order of the first. Nothing if the training is
// another one there.
std::optional<std::vector<NodeId>> places_of(const Graph& training, const Graph& both) {
  std::vector<NodeId> places;
  for (std::size_t i = 0; i < both.nodes.size(); ++i) {
    const Node& there = both.nodes[NodeId{i}];
    if (answers(both, there.section)) continue;
    if (places.size() == training.nodes.size()) return {};
    const Node& here = training.nodes[NodeId{places.size()}];
    const bool same = here.op == there.op && training.name(here.section) == both.name(there.section) && here.line == there.line &&
                      here.site == there.site && here.attributes == there.attributes &&
                      same_types(training, here.inputs, both, there.inputs) &&
                      same_types(training, here.outputs, both, there.outputs);
    if (!same) return {};
    places.push_back(NodeId{i});
  }
  if (places.size() != training.nodes.size()) return {};
  return places;
}

// The planner's decisions for a training, in the numbers of the graph that also answers.
std::optional<PlanDecisions> decisions_in(const Graph& both, const Config& config, const PlanningInput& input,
                                          PlanDecisions decisions) {
  const Graph training = build_training_graph(config, input.facts, decisions.micro_batch).graph;
  const std::optional<std::vector<NodeId>> places = places_of(training, both);
  if (!places) return {};
  for (NodeReplay& replay : decisions.replays) {
    replay.node = (*places)[replay.node.index];
    replay.before = (*places)[replay.before.index];
  }
  return decisions;
}

}  // namespace

GenerationShape shape_of(const AnswerDecision& answers) {
  if (!answers.active()) return {};
  return {.rows = 1, .prompt = 0, .slots = answers.slots, .chunk = answers.chunk};
}

AskedPrompts asked_prompts(const Config& asked, const PlanningInput& input) {
  if (shown_samples(asked) == 0) return {};
  const Config config = with_tokens_of(asked, input.data);
  AskedPrompts prompts{{}, why_never(config, input)};
  if (!prompts.why_not.empty()) return prompts;
  try {
    prompts.found = find_prompts(config, input.data.validation.get());
    if (input.data.validation && prompts.found.prompts.empty())
      prompts.why_not = "no validation sample has a prompt and an answer";
  } catch (const std::bad_alloc&) {  // past the memory limit of planning
    prompts.why_not = kLittleMemory;
  }
  return prompts;
}

PlannedAnswers plan_answers(const Config& config, const PlanningInput& input, const Plan& plan, OpCatalogue& catalogue,
                            const AskedPrompts& asked) {
  if (shown_samples(config) == 0) return {};
  PlannedAnswers result{{}, input.facts.share.ranks > 1 ? kSeveralRanks : asked.why_not};
  if (!result.left_out.empty()) return result;
  const Residency& residency = plan.decisions.residency;
  if (residency.parameters.beyond || residency.tables.beyond) {
    result.left_out = "weights rest outside memory, and each token of an answer reads all of them";
    return result;
  }
  try {
    const AnswerDecision answers = decision_of(config, asked.found);
    DataFacts facts = input.facts;
    facts.answers = shape_of(answers);
    const Graph both = build_training_graph(config, facts, plan.decisions.micro_batch).graph;
    std::optional<PlanDecisions> decisions = decisions_in(both, config, input, plan.decisions);
    if (!decisions) {
      result.left_out = "with these number formats they would change the training";
      return result;
    }
    decisions->answers = answers;
    Plan with = build_plan(both, find_units(both), *decisions, input.request, input.machine.machine, catalogue, nullptr);
    if (input.budget.memory && with.process > *input.budget.memory) {
      result.left_out =
          fmt::format("the process would take {}, the budget is {}", to_text(with.process), to_text(*input.budget.memory));
      return result;
    }
    with.floor = plan.floor, with.floor_bound = plan.floor_bound;
    with.knee = plan.knee, with.ceiling = plan.ceiling;
    with.bound_seconds = plan.bound_seconds;
    result.plan = std::move(with);
  } catch (const std::bad_alloc&) {  // past the memory limit of planning
    result.left_out = kLittleMemory;
  }
  return result;
}

double answer_seconds(const Config& config, const Plan& plan) {
  const AnswerDecision& answers = plan.decisions.answers;
  if (!answers.active()) return 0;
  const auto chunks = static_cast<double>(ceil_div(answers.slots, answers.chunk));
  return static_cast<double>(shown_samples(config)) * (chunks * find_phase(plan, "extend")->seconds +
                                                       static_cast<double>(kMostAnswered) * find_phase(plan, "decode")->seconds);
}

json samples_json(const Plan& plan, const HeldOutPrompts& prompts) {
  const AnswerDecision& answers = plan.decisions.answers;
  Bytes cache;
  for (const Value& value : plan.graph.values) {
    if (value.role == Role::cache && value.persistent()) cache += aligned_bytes(value);
  }
  return {{"left_out", nullptr},    {"prompts", prompts.prompts.size()}, {"tokens", kMostAnswered}, {"context", answers.slots},
          {"cache_bytes", cache.n}, {"heap_bytes", answers.heap.n}};
}

json samples_left_out(const std::string& reason) { return {{"left_out", reason}}; }

}  // namespace plimsoll
