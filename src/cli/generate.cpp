#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/environment.h"
#include "cli/inference.h"
#include "cli/say.h"
#include "cli/shown_text.h"
#include "infer/generation.h"
#include "infer/vocabulary.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kUsualTokens = 200;

void check(const GenerateArguments& arguments) {
  if (arguments.prompts.empty() && !arguments.chat) {
    throw config_error("E-USAGE", "--prompt", "there is no prompt", "a text to continue, or a conversation",
                       {"--prompt TEXT", "--chat"});
  }
  for (const std::string& prompt : arguments.prompts) {
    if (prompt.empty()) throw config_error("E-USAGE", "--prompt", "the prompt is empty", "at least one character");
  }
  if (!(arguments.temperature >= 0)) {
    throw config_error("E-USAGE", "--temperature", fmt::format("it is {}", arguments.temperature), "0 or more");
  }
  if (!(arguments.top_p > 0 && arguments.top_p <= 1)) {
    throw config_error("E-USAGE", "--top-p", fmt::format("it is {}", arguments.top_p), "above 0, up to 1");
  }
}

GenerationRequest request_of(const GenerateArguments& arguments, const Vocabulary& vocabulary, const ModelFacts& facts) {
  GenerationRequest request;
  request.prompts = vocabulary.prompts();
  request.context = facts.positions;
  request.vocabulary = std::min(vocabulary.size(), facts.vocab);
  request.sampling = {arguments.temperature, arguments.top_k, arguments.top_p, arguments.seed};
  for (const auto& prompt : request.prompts) {
    if (prompt.empty()) {
      throw config_error("E-USAGE", "--prompt", "the tokenizer of the model makes no token of it", "a text that has tokens");
    }
    if (std::ssize(prompt) < request.context) continue;
    throw config_error("E-USAGE", "--prompt",
                       fmt::format("it has {} tokens, the model sees {} at most", prompt.size(), request.context),
                       "a prompt that leaves room for a token");
  }
  const auto shortest = std::ranges::min(request.prompts, {}, [](const auto& prompt) { return prompt.size(); });
  request.tokens =
      std::min(arguments.tokens.value_or(kUsualTokens), request.context - std::ssize(shortest));  // the room for the answer
  return request;
}

nlohmann::json to_json(const GenerateArguments& arguments, const Vocabulary& vocabulary, const std::vector<GeneratedRow>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string text;
    for (const std::int32_t token : rows[i].tokens) text += vocabulary.decode(token);
    list.push_back({{"prompt", arguments.prompts[i]},
                    {"prompt_tokens", vocabulary.prompts()[i]},
                    {"text", std::move(text)},
                    {"tokens", rows[i].tokens},
                    {"stopped", name(rows[i].stopped)}});
  }
  return list;
}

// A single text is printed while it is generated; several texts are printed at the end, one after the other.
class Writer {
 public:
  Writer(const GenerateArguments& arguments, const Vocabulary& vocabulary) : arguments_(arguments), vocabulary_(vocabulary) {
    if (streams()) put(arguments.prompts.front());
  }

  void token(std::int32_t token) {
    if (streams()) put(vocabulary_.decode(token));
  }

  void finish(const std::vector<GeneratedRow>& rows) {
    if (streams()) return end();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      put(i == 0 ? "" : "\n");
      put(arguments_.prompts[i]);
      for (const std::int32_t token : rows[i].tokens) put(vocabulary_.decode(token));
      end();
    }
  }

 private:
  bool streams() const { return !arguments_.json && arguments_.prompts.size() == 1; }
  // A file gets the exact bytes.
  void put(const std::string& text) {
    print_marked(terminal_ ? shown_.add(text) : text);
    std::fflush(stdout);
  }
  void end() {
    print_marked(shown_.end() + "\n");
    std::fflush(stdout);
  }

  const bool terminal_ = output_is_terminal();
  const GenerateArguments& arguments_;
  const Vocabulary& vocabulary_;
  ShownStream shown_;
};

}  // namespace

int run_generate(const GenerateArguments& arguments) {
  check(arguments);
  if (arguments.chat) return run_chat(arguments);
  InferenceCommand command(arguments, "generate");
  command.require_tokens();
  const ModelSource& model = command.model();
  const ModelFacts& facts = command.facts();
  const Vocabulary vocabulary(model.tokenizer(), facts, {arguments.prompts, "--prompt", say_line});
  GenerationRequest request = request_of(arguments, vocabulary, facts);
  if (!arguments.ignore_end) request.ends = model.ends();
  const auto build = [&](std::int64_t, const FrozenBase& stored) {
    return build_generation_graph(model.model, generation_shape(request), model.adapter, stored);
  };
  InferenceRun run = command.run(build, {1}, vocabulary.heap() + generation_heap(request));
  Writer writer(arguments, vocabulary);
  const std::vector<GeneratedRow> rows = generate(run, request, [&](std::size_t, std::int32_t token) { writer.token(token); });
  run.check();
  if (!arguments.json) {
    writer.finish(rows);
    return 0;
  }
  print_result({{"schema", "plimsoll.generation/1"}, {"samples", to_json(arguments, vocabulary, rows)}}, run);
  return 0;
}

}  // namespace plimsoll
