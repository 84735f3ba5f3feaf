#include "session/run_answers.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "formats/utf8.h"
#include "models/family.h"

namespace plimsoll {
namespace {

class PassesOfTraining final : public CachedPasses {
 public:
  PassesOfTraining(Trainer& trainer, const TrainingGraph& model, const Graph& graph)
      : trainer_(trainer), model_(model), graph_(graph) {}

  const Graph& graph() const override { return graph_; }
  const Pass& pass(std::string_view name) const override {
    for (const Pass& pass : model_.answers) {
      if (graph_.name(pass.section) == name) return pass;
    }
    throw internal_error("answers", "the training has no pass of this name");
  }
  Executor& executor() override { return trainer_.executor(); }
  void run(const Pass& pass, const std::function<void()>& feed) override { trainer_.run_pass(pass, feed); }

 private:
  Trainer& trainer_;
  const TrainingGraph& model_;
  const Graph& graph_;
};

}  // namespace

RunAnswers::RunAnswers(const Config& config, HeldOutPrompts prompts, const TrainingGraph& model, const Graph& graph)
    : prompts_(std::move(prompts)),
      model_(model),
      graph_(graph),
      vocabulary_(vocabulary_of(config), facts_of(config.model.config)),
      context_(config.model.context),
      rows_(std::min(vocabulary_.size(), facts_of(config.model.config).vocab)) {}

std::vector<Answer> RunAnswers::answer(Trainer& trainer, const std::function<bool()>& stops) const {
  std::vector<Answer> answers;
  trainer.begin_answers();
  for (const HeldOutPrompt& prompt : prompts_.prompts) {
    answers.push_back({trainer.progress().updates, prompt.text, answer(trainer, prompt, stops), prompt.expected});
    if (stops()) return {};  // the last one may lack its end
  }
  return answers;
}

std::string RunAnswers::answer(Trainer& trainer, const HeldOutPrompt& prompt, const std::function<bool()>& stops) const {
  GenerationRequest request;
  request.prompts = {prompt.tokens};
  request.context = context_;
  request.tokens = std::min(kMostAnswered, context_ - std::ssize(prompt.tokens));
  request.vocabulary = rows_;
  request.ends = prompts_.ends;
  request.sampling.temperature = 0;
  request.stops = stops;
  PassesOfTraining passes(trainer, model_, graph_);
  std::vector<std::int32_t> held;
  std::string text;
  try {
    continue_chat(passes, request, held, [&](std::size_t, std::int32_t token) { text += vocabulary_.decode(token); });
  } catch (const Error& error) {
    if (error.code != "E-DIVERGED") throw;  // the next update, or the evaluation, reports it
  }
  return beginning_of(utf8_repaired(text));
}

}  // namespace plimsoll
