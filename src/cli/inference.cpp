#include "cli/inference.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "cli/environment.h"
#include "cli/say.h"
#include "device/machine_facts.h"
#include "device/process_memory.h"
#include "measure/calibrate.h"
#include "records/best_weights.h"
#include "session/probe.h"

namespace plimsoll {

InferenceCommand::InferenceCommand(const InferenceArguments& arguments, std::string_view name)
    : arguments_(arguments),
      settings_(load_inference_settings(arguments.changes, name)),
      limit_(std::in_place, settings_.memory.budget),
      model_(find_model(arguments.weights, arguments.adapter)),
      facts_(facts_of(model_.model)) {
  say_best(arguments.weights);
  say_best(arguments.adapter);
}

void InferenceCommand::require_tokens() const {
  if (facts_.vocab > 0) return;
  throw config_error("E-MODEL-TOKENS", model_.folder.string(),
                     fmt::format("a {} reads no tokens, and text is made of them", model_.model.family().kind),
                     "the weights of a language model");
}

InferenceRun InferenceCommand::run(decltype(InferenceRequest::build) build, std::vector<std::int64_t> sizes, Bytes heap) {
  const int threads = arguments_.threads > 0 ? arguments_.threads : usable_cores();
  room_ = inference_room(settings_.memory, calibrated_machine(threads, cache_folder(), probe_shape, say_line), cache_folder(),
                         say_line);
  const FrozenBase base = base_of(settings_.base, model_.model, model_.folder);
  InferencePlan plan = plan_inference({std::move(build), std::move(sizes), base, &model_, heap}, *room_);
  limit_.reset();
  return {std::move(plan), *room_, model_, arguments_.audit};
}

void say_best(const std::string& weights) {
  if (weights.empty()) return;
  if (const std::optional<std::string> note = best_note(weights)) say_line(*note);
}

void print_result(nlohmann::json object, const InferenceRun& run) {
  object["predicted"] = {{"process_bytes", run.plan().process.n}, {"arena_bytes", run.plan().arena.n}};
  object["measured"] = {{"process_hwm_bytes", peak_resident().n}};
  print_json(object);
}

}  // namespace plimsoll
