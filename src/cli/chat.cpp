// plimsoll generate --chat. One plan and one run serve all turns. A child process renders and encodes each turn, so the tokenizer
// takes no memory of this process. The caches of the run keep the tokens that a turn has in common with the previous one.
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/child.h"
#include "base/error.h"
#include "base/shell.h"
#include "cli/commands.h"
#include "cli/environment.h"
#include "cli/failure.h"
#include "cli/inference.h"
#include "cli/say.h"
#include "cli/shown_text.h"
#include "cli/signals.h"
#include "data/dialogue.h"
#include "data/source.h"
#include "formats/chat_template.h"
#include "formats/file.h"
#include "formats/tokenizer/tokenizer.h"
#include "formats/utf8.h"
#include "infer/generation.h"
#include "infer/vocabulary.h"

namespace plimsoll {
namespace {

using nlohmann::json;

constexpr std::int64_t kUsualContext = 4096, kLeastContext = 512, kUsualTokens = 512;
constexpr std::size_t kMostLine = std::size_t{1} << 20;
// Heap bytes in addition to the tokens: a line while it is read, and the turns with the replies of a child.
constexpr std::int64_t kLineHeap = 3 << 20, kTextPerToken = 32, kJsonPerToken = 32;

std::string dumped(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

void put(std::string_view shown) {
  print_marked(shown);
  std::fflush(stdout);
}

void check_text(std::string_view where, std::string_view text) {
  const std::size_t good = utf8_valid_prefix(text);
  if (good == text.size()) return;
  throw data_error("E-DATA-TEXT", std::string(where), fmt::format("byte {} is not UTF-8", good), "text in UTF-8");
}

// The lines of stdin.
class Lines {
 public:
  // Nothing at the end, or if Ctrl-C ends the reading.
  std::optional<std::string> next() {
    while (true) {
      if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
        std::string line = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        if (line.ends_with('\r')) line.pop_back();
        return line;
      }
      if (buffer_.size() > kMostLine) {
        throw config_error("E-CHAT-CONTEXT", "stdin", "a line has more than 1 MiB", "turns that the context has room for");
      }
      char piece[4096];
      const ssize_t count = ended_ ? 0 : ::read(STDIN_FILENO, piece, sizeof piece);
      if (count > 0) {
        buffer_.append(piece, static_cast<std::size_t>(count));
      } else if (count == 0) {
        ended_ = true;
        if (buffer_.empty()) return {};
        buffer_ += '\n';
      } else if (errno == EINTR || errno == EAGAIN) {  // some programs leave the terminal non-blocking
        if (interrupted()) return {};
        pollfd input{STDIN_FILENO, POLLIN, 0};
        ::poll(&input, 1, -1);
      } else {
        throw data_error("E-IO-READ", "stdin", std::strerror(errno), "lines of a conversation", {"--prompt TEXT"});
      }
    }
  }

 private:
  std::string buffer_;
  bool ended_ = false;
};

Remedy own_template() { return {Change("command.template", "FILE"), "with a template for this conversation"}; }

class Chat {
 public:
  explicit Chat(const GenerateArguments& arguments)
      : arguments_(arguments), interactive_(arguments.prompts.empty() && ::isatty(STDIN_FILENO) == 1) {
    if (interactive_ && arguments.json) {
      throw config_error("E-USAGE", "--json", "stdin is a terminal", "turns from elsewhere", {"--prompt TEXT"});
    }
    turns_ = arguments.prompts;
    // The JSON object holds all turns, so they are read before planning.
    if (arguments.json && turns_.empty()) {
      while (std::optional<std::string> line = lines_.next()) turns_.push_back(*std::move(line));
    }
    std::erase(turns_, "");
    check_text("--system", arguments.system);
    if (!arguments.system.empty()) dialogue_.push_back({"system", arguments.system});
  }

  int run() {
    InferenceCommand command(arguments_, "generate");
    command.require_tokens();
    model_ = command.model();
    const ModelFacts& facts = command.facts();
    open_template(facts);
    const Vocabulary vocabulary(model_.tokenizer(), facts);
    rows_ = facts.vocab;
    request_.vocabulary = std::min(vocabulary.size(), rows_);
    request_.sampling = {arguments_.temperature, arguments_.top_k, arguments_.top_p, arguments_.seed};
    InferenceRun run = planned(command, vocabulary);
    request_.context = run.size();
    if (interactive_) greet();
    json samples = json::array();
    while (const std::optional<std::string> user = next_turn()) {
      std::optional<json> sample = answer(run, vocabulary, *user);
      if (sample && arguments_.json) samples.push_back(std::move(*sample));
    }
    run.check();
    if (arguments_.json) tell(run, std::move(samples));
    return 0;
  }

 private:
  // The tokenizer and the template in a child process.
  struct Encoding {
    explicit Encoding(const Chat& chat)
        : tokenizer(Tokenizer::load(chat.model_.tokenizer())),
          templates(templates_of(chat)),
          encoder(tokenizer, &templates, options()) {}

    static ChatTemplates templates_of(const Chat& chat) {
      const std::filesystem::path& adapter = chat.model_.adapter.init;
      std::optional<ChatTemplates> found;
      if (chat.arguments_.chat_template.empty() && !adapter.empty()) found = load_chat_templates(adapter);
      // A template without special tokens uses those of the base.
      if (found && found->tokens.empty() && is_there(adapter / "chat_template.jinja")) {
        found = load_chat_templates(chat.model_.folder, adapter / "chat_template.jinja");
      }
      if (!found) found = load_chat_templates(chat.model_.folder, chat.arguments_.chat_template);
      if (found) return *std::move(found);
      throw data_error("E-CHAT-TEMPLATE", chat.model_.folder.string(), "the model has no chat template",
                       "chat_template.jinja, or the key chat_template of tokenizer_config.json", {"--template FILE"});
    }
    static ChatOptions options() {
      const std::time_t now = std::time(nullptr);
      ChatOptions options;
      ::localtime_r(&now, &options.now);
      return options;
    }

    Tokenizer tokenizer;
    ChatTemplates templates;
    ChatEncoder encoder;
  };

  // Finds the template and the tokens that end an answer: those that the folder names, the tokenizer's end token, and the token
  // that the template writes after an answer.
  void open_template(const ModelFacts& facts) {
    if (facts.bytes) {
      throw data_error("E-CHAT-TEMPLATE", model_.folder.string(), "the model reads bytes and has no tokenizer",
                       "a model with a tokenizer and a chat template",
                       {fmt::format("plimsoll generate --weights {} --prompt TEXT", shell_quoted(model_.folder.string()))});
    }
    const json found = json::parse(run_in_child([&] {
      Encoding encoding(*this);
      const std::vector<std::int64_t> ends = ends_of_answers(encoding.tokenizer, encoding.templates, model_.ends());
      return dumped({{"ends", ends}, {"source", encoding.templates.source}});
    }));
    source_ = found["source"];
    if (!arguments_.ignore_end) request_.ends = found["ends"].get<std::vector<std::int64_t>>();
  }

  // The run with the largest context that fits.
  InferenceRun planned(InferenceCommand& command, const Vocabulary& vocabulary) {
    const std::int64_t positions = command.facts().positions;
    if (arguments_.context < 0 || arguments_.context == 1 || arguments_.context > positions) {
      throw config_error("E-USAGE", "--context", fmt::format("it is {}", arguments_.context),
                         fmt::format("from 2 to {}, the positions of the model", positions));
    }
    std::vector<std::int64_t> contexts{arguments_.context > 0 ? arguments_.context : std::min(kUsualContext, positions)};
    while (arguments_.context == 0 && contexts.back() / 2 >= kLeastContext) contexts.push_back(contexts.back() / 2);
    request_.tokens = std::min(most_tokens(), contexts.front());
    const auto build = [&](std::int64_t context, const FrozenBase& stored) {
      return build_generation_graph(model_.model, chat_shape(context), model_.adapter, stored);
    };
    std::int64_t text = kLineHeap + kTextPerToken * contexts.front();
    if (arguments_.json) text += kJsonPerToken * contexts.front() * std::ssize(turns_);
    const Bytes heap = vocabulary.heap() + chat_heap(contexts.front(), request_) + Bytes{text};
    return command.run(build, contexts, heap);
  }

  std::int64_t most_tokens() const { return arguments_.tokens.value_or(kUsualTokens); }

  void greet() {
    catch_interrupts();
    request_.stops = interrupted;
    say_line(fmt::format("{}: {} tokens of context. Ctrl-C ends an answer, Ctrl-D the conversation.", source_, request_.context));
  }

  std::optional<std::string> next_turn() {
    if (!arguments_.prompts.empty() || arguments_.json) {
      if (turn_ == turns_.size()) return {};
      return turns_[turn_++];
    }
    while (true) {
      if (interactive_) say_text("> ");
      std::optional<std::string> line = lines_.next();
      if (interactive_ && !line) say_text("\n");
      if (!line || !line->empty()) return line;
    }
  }

  // The prompt of the next answer; nothing if the user may try again. Turns without room in the context are dropped.
  std::optional<DialoguePrompt> prompt_for(const std::string& user) {
    dialogue_.push_back({"user", user});
    try {
      check_text(fmt::format("chat:{}", dialogue_.size()), user);
      const std::int64_t context = request_.context, reserve = std::min(most_tokens(), context / 4);
      const json found = json::parse(run_in_child([&] {
        Encoding encoding(*this);
        const DialoguePrompt prompt = fit_dialogue(encoding.encoder, dialogue_, static_cast<std::size_t>(context - reserve),
                                                   static_cast<std::size_t>(context - 1));
        const auto large = std::ranges::find_if(prompt.tokens, [this](Token token) { return token >= rows_; });
        if (large != prompt.tokens.end()) {
          const std::string text = encoding.tokenizer.decode(std::vector<Token>{*large}, /*skip_special=*/false);
          throw rowless_token_error("the conversation", text, *large, rows_);
        }
        return dumped({{"text", prompt.text}, {"tokens", prompt.tokens}, {"dropped", prompt.dropped}});
      }));
      DialoguePrompt prompt{found["text"], found["tokens"].get<std::vector<Token>>(), found["dropped"]};
      const auto first = dialogue_.begin() + (arguments_.system.empty() ? 0 : 1);
      dialogue_.erase(first, first + static_cast<std::ptrdiff_t>(prompt.dropped));
      return prompt;
    } catch (Error& error) {
      dialogue_.pop_back();
      if (error.code == "E-CHAT-TEMPLATE") error.remedies = {own_template()};
      if (!interactive_ || error.kind != ErrorKind::user) throw;
      report_failure(error, /*json=*/false);
      return {};
    }
  }

  // Answers a turn, and appends the turn and the answer to the dialogue.
  std::optional<json> answer(InferenceRun& run, const Vocabulary& vocabulary, const std::string& user) {
    const std::optional<DialoguePrompt> prompt = prompt_for(user);
    if (!prompt) return {};
    if (prompt->dropped > 0) {
      say_line(fmt::format("the conversation has outgrown its context of {} tokens: the oldest {} turns are left out",
                           request_.context, prompt->dropped));
    }
    request_.prompts = {{prompt->tokens.begin(), prompt->tokens.end()}};
    request_.tokens = std::min(most_tokens(), request_.context - std::ssize(prompt->tokens));
    std::string text;
    ShownStream shown;
    const ChatRow result = continue_chat(run, request_, held_, [&](std::size_t, std::int32_t token) {
      const std::string part = vocabulary.decode(token);
      text += part;
      if (!arguments_.json) put(output_is_terminal() ? shown.add(part) : part);
    });
    ++request_.first_row;
    if (!arguments_.json) put(shown.end() + "\n");
    text = utf8_repaired(text);  // a model may write other bytes
    tell_end(result.row);
    take_interrupt();
    if (text.empty() && result.row.stopped == Stopped::interrupt) {
      dialogue_.pop_back();
    } else {
      dialogue_.push_back({"assistant", text});
    }
    if (!arguments_.json) return {};
    return json{{"prompt", user},
                {"rendered", prompt->text},
                {"prompt_tokens", prompt->tokens},
                {"text", std::move(text)},
                {"tokens", result.row.tokens},
                {"stopped", name(result.row.stopped)},
                {"dropped_turns", prompt->dropped},
                {"reused_tokens", result.reused}};
  }

  void tell_end(const GeneratedRow& row) const {
    if (row.stopped == Stopped::context) say_line("the answer ends where the context is full");
    if (row.stopped == Stopped::tokens) {
      say_line(fmt::format("the answer ends after {} tokens (--tokens)", row.tokens.size()));
    }
  }

  void tell(const InferenceRun& run, json samples) const {
    print_result({{"schema", "plimsoll.generation/1"},
                  {"samples", std::move(samples)},
                  {"chat",
                   {{"template", source_},
                    {"context", request_.context},
                    {"end_tokens", request_.ends},
                    {"system", arguments_.system.empty() ? json() : json(arguments_.system)}}}},
                 run);
  }

  const GenerateArguments& arguments_;
  const bool interactive_;
  Lines lines_;
  std::vector<std::string> turns_;  // turns known from the beginning
  std::size_t turn_ = 0;
  ModelSource model_;
  std::string source_;     // source of the template
  std::int64_t rows_ = 0;  // token rows of the model
  GenerationRequest request_;
  std::vector<Turn> dialogue_;
  std::vector<std::int32_t> held_;  // the tokens in the caches
};

}  // namespace

int run_chat(const GenerateArguments& arguments) {
  try {
    return Chat(arguments).run();
  } catch (Error& error) {
    for (Remedy& remedy : error.remedies) {
      if (std::ranges::find(remedy.changes, Change("data.template", "FILE")) != remedy.changes.end()) remedy = own_template();
    }
    throw;
  }
}

}  // namespace plimsoll
