#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/child.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/say.h"
#include "cli/settings.h"
#include "config/config.h"
#include "device/machine_facts.h"
#include "device/process_memory.h"
#include "formats/bpe.h"
#include "formats/bpe_vocabulary.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/tokenizer_folder.h"
#include "formats/weights_folder.h"
#include "infer/generation.h"
#include "infer/inference_run.h"
#include "measure/calibrate.h"
#include "models/all.h"
#include "session/probe.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kMostTokens = 1 << 24;

// The prompts as tokens, and the bytes of every token: all that generating needs of a vocabulary. Its merges, the text of its
// files and the encoder stay in a child process; what comes back is charged to the plan.
class Vocabulary {
 public:
  Vocabulary(const std::filesystem::path& folder, const ModelFacts& model, const std::vector<std::string>& prompts) {
    if (model.bytes) {
      check_size(folder, kBytes, model.vocab);
      for (const std::string& prompt : prompts) {
        std::vector<std::int32_t>& tokens = prompts_.emplace_back();
        for (const char letter : prompt) tokens.push_back(static_cast<unsigned char>(letter));
      }
      return;
    }
    unpack(run_in_child([&] {
      if (std::optional<Tokenizer> tokenizer = tokenizer_beyond_gpt2(folder)) {
        check_size(folder, tokenizer->size(), model.vocab);
        std::vector<std::vector<Token>> tokens;
        for (const std::string& prompt : prompts) {
          try {
            tokenizer->encode_part(prompt, {}, tokens.emplace_back(tokenizer->before()));
          } catch (const Error& error) {
            throw data_error(error.code, "--prompt", error.message, error.expected);
          }
        }
        return packed(tokenizer->size(), tokens, [&](Token token) { return tokenizer->inside(token); });
      }
      const BpeVocabulary vocabulary = BpeVocabulary::load(folder);
      check_size(folder, vocabulary.size(), model.vocab);
      const std::vector<AddedToken> unread = unread_tokens(folder, vocabulary);
      BpeEncoder encoder(vocabulary);
      std::vector<std::vector<Token>> tokens;
      for (const std::string& prompt : prompts) {
        refuse_unread(prompt, unread, "--prompt");
        tokens.push_back(encoder.encode(prompt));
      }
      return packed(vocabulary.size(), tokens, [&](Token token) { return vocabulary.bytes_of(token); });
    }));
  }

  const std::vector<std::vector<std::int32_t>>& prompts() const { return prompts_; }
  std::int64_t size() const { return ends_.empty() ? kBytes : std::ssize(ends_); }
  Bytes heap() const {
    std::int64_t tokens = 0;
    for (const auto& prompt : prompts_) tokens += std::ssize(prompt);
    return Bytes{std::ssize(text_) + 4 * std::ssize(ends_) + 4 * tokens};
  }

  std::string decode(std::int32_t token) const {
    if (ends_.empty()) return std::string(1, static_cast<char>(token));
    const auto index = static_cast<std::size_t>(token);
    const std::uint32_t begin = index == 0 ? 0 : ends_[index - 1];
    return text_.substr(begin, ends_[index] - begin);
  }

 private:
  static constexpr std::int64_t kBytes = 256;

  // A model may have more rows than the vocabulary has tokens (padding); the other way round, a prompt would read past them.
  static void check_size(const std::filesystem::path& folder, std::int64_t tokens, std::int64_t rows) {
    if (tokens <= rows) return;
    throw data_error("E-DATA-TOKEN", folder.string(), fmt::format("the vocabulary has {} tokens and the model {}", tokens, rows),
                     "a model with at least as many", {"the tokenizer that the model was trained with"});
  }

  static void put(std::string& to, std::uint32_t number) { to.append(reinterpret_cast<const char*>(&number), sizeof number); }

  // Two counts, of each prompt its length and tokens, the end of each token's bytes, the bytes.
  template <class BytesOf>
  static std::string packed(std::int64_t size, const std::vector<std::vector<Token>>& prompts, BytesOf&& bytes_of) {
    std::string out, text;
    put(out, static_cast<std::uint32_t>(prompts.size()));
    put(out, static_cast<std::uint32_t>(size));
    for (const std::vector<Token>& prompt : prompts) {
      put(out, static_cast<std::uint32_t>(prompt.size()));
      for (const Token token : prompt) put(out, token);
    }
    for (std::int64_t i = 0; i < size; ++i) {
      text += bytes_of(static_cast<Token>(i));
      put(out, static_cast<std::uint32_t>(text.size()));
    }
    return out + text;
  }

  void unpack(const std::string& answer) {
    const char* at = answer.data();
    const auto take = [&](void* to, std::size_t bytes) { std::memcpy(to, at, bytes), at += bytes; };
    std::uint32_t counts[2], length;
    take(counts, sizeof counts);
    for (std::uint32_t i = 0; i < counts[0]; ++i) {
      take(&length, sizeof length);
      take(prompts_.emplace_back(length).data(), std::size_t{4} * length);
    }
    ends_.resize(counts[1]);
    take(ends_.data(), 4 * ends_.size());
    text_.assign(at, answer.data() + answer.size());
  }

  std::vector<std::vector<std::int32_t>> prompts_;
  std::vector<std::uint32_t> ends_;  // empty: tokens are bytes
  std::string text_;
};

void check(const GenerateArguments& arguments) {
  for (const std::string& prompt : arguments.prompts) {
    if (prompt.empty()) throw config_error("E-USAGE", "--prompt", "the prompt is empty", "at least one character");
  }
  if (arguments.tokens < 1 || arguments.tokens > kMostTokens) {
    throw config_error("E-USAGE", "--tokens", fmt::format("it is {}", arguments.tokens),
                       fmt::format("from 1 to {}", kMostTokens));
  }
  check_threads(arguments.threads);
  if (!(arguments.temperature >= 0)) {
    throw config_error("E-USAGE", "--temperature", fmt::format("it is {}", arguments.temperature), "0 or more");
  }
  if (arguments.top_k < 0) throw config_error("E-USAGE", "--top-k", fmt::format("it is {}", arguments.top_k), "0 (all) or more");
  if (!(arguments.top_p > 0 && arguments.top_p <= 1)) {
    throw config_error("E-USAGE", "--top-p", fmt::format("it is {}", arguments.top_p), "above 0, up to 1");
  }
}

GenerationRequest request_of(const GenerateArguments& arguments, const Vocabulary& vocabulary, const ModelFacts& facts) {
  GenerationRequest request;
  request.prompts = vocabulary.prompts();
  request.context = facts.positions;
  request.vocabulary = vocabulary.size();
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
  request.tokens = std::min(arguments.tokens, request.context - std::ssize(shortest));  // more has no room
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

// One text comes as it is made; several one after the other, when all have ended.
class Writer {
 public:
  Writer(const GenerateArguments& arguments, const Vocabulary& vocabulary) : arguments_(arguments), vocabulary_(vocabulary) {
    if (streams()) put(arguments.prompts.front());
  }

  void token(std::int32_t token) const {
    if (streams()) put(vocabulary_.decode(token));
  }

  void finish(const std::vector<GeneratedRow>& rows) const {
    if (streams()) return put("\n");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      put(i == 0 ? "" : "\n");
      put(arguments_.prompts[i]);
      for (const std::int32_t token : rows[i].tokens) put(vocabulary_.decode(token));
      put("\n");
    }
  }

 private:
  bool streams() const { return !arguments_.json && arguments_.prompts.size() == 1; }
  static void put(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  const GenerateArguments& arguments_;
  const Vocabulary& vocabulary_;
};

}  // namespace

int run_generate(const GenerateArguments& arguments) {
  check(arguments);
  const MemorySettings memory = load_budgets(arguments.budgets);
  const ModelSource model = find_model(arguments.weights, arguments.adapter);
  const std::filesystem::path& folder = model.folder;
  const ModelFacts facts = facts_of(model.model);
  const Vocabulary vocabulary(folder, facts, arguments.prompts);
  GenerationRequest request = request_of(arguments, vocabulary, facts);
  if (!arguments.ignore_end) request.ends = end_tokens(folder);
  const int threads = arguments.threads > 0 ? arguments.threads : usable_cores();
  const InferenceRoom room =
      inference_room(memory, calibrated_machine(threads, cache_folder(), probe_shape, say_line), cache_folder(), say_line);
  const FrozenBase base = base_of(base_format(arguments.sets, "generate"), model.model, model.folder);
  const auto build = [&](std::int64_t) {
    return build_generation_graph(model.model, generation_shape(request), model.adapter, base);
  };
  const Bytes heap = vocabulary.heap() + generation_heap(request);
  InferenceRun run(plan_inference({build, {1}, heap}, room), room, model, arguments.audit);
  const Writer writer(arguments, vocabulary);
  const std::vector<GeneratedRow> rows = generate(run, request, [&](std::size_t, std::int32_t token) { writer.token(token); });
  run.check();
  if (!arguments.json) {
    writer.finish(rows);
    return 0;
  }
  const nlohmann::json object = {{"schema", "plimsoll.generation/1"},
                                 {"samples", to_json(arguments, vocabulary, rows)},
                                 {"predicted", {{"process_bytes", run.plan().process.n}, {"arena_bytes", run.plan().arena.n}}},
                                 {"measured", {{"process_hwm_bytes", peak_resident().n}}}};
  fmt::print("{}\n", object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  return 0;
}

}  // namespace plimsoll
