#include "data/dialogue.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace plimsoll {
namespace {

using jinja::Origin;
using jinja::Text;
using jinja::Value;

Value message_of(const Turn& turn) {
  jinja::Dict message;
  message.set(Text("role"), Text(turn.role, Origin::data));
  message.set(Text("content"), Text(turn.content, Origin::data));
  return message;
}

}  // namespace

DialoguePrompt fit_dialogue(ChatEncoder& encoder, std::span<const Turn> turns, std::size_t room, std::size_t most) {
  const auto lead = static_cast<std::size_t>(std::ranges::find_if(turns, [](const Turn& turn) { return turn.role != "system"; }) -
                                             turns.begin());
  ChatSample sample;
  sample.file = "chat";
  sample.line = std::ssize(turns);
  for (std::size_t first = lead;;) {
    std::vector<Value> messages;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      if (i < lead || i >= first) messages.push_back(message_of(turns[i]));
    }
    sample.messages = jinja::make_list(std::move(messages));
    EncodedPrompt prompt = encoder.encode_prompt(sample);
    if (prompt.tokens.empty()) {
      throw data_error("E-CHAT-TEMPLATE", sample.where(), "the template writes nothing for the conversation",
                       "a template that writes turns, and the begin of an answer");
    }
    std::size_t next = first + 1;  // the next turn of the user
    while (next < turns.size() && turns[next].role != "user") ++next;
    const bool last = next >= turns.size();
    if (prompt.tokens.size() <= (last ? most : room)) return {std::move(prompt.text), std::move(prompt.tokens), first - lead};
    if (last) {
      throw config_error(
          "E-CHAT-CONTEXT", sample.where(),
          fmt::format("the turn has {} tokens in its template, the context has room for {}", prompt.tokens.size(), most),
          "a turn that leaves room for an answer", {Remedy(Change("command.context", "N"), "up to the positions of the model")});
    }
    first = next;
  }
}

std::vector<std::int64_t> ends_of_answers(Tokenizer& tokenizer, const ChatTemplates& templates, std::vector<std::int64_t> known) {
  for (const auto& [name, text] : templates.tokens) {
    const Token token = name == "eos_token" ? tokenizer.find(text) : Token(-1);
    if (tokenizer.has(token)) known.push_back(token);
  }
  ChatEncoder encoder(tokenizer, &templates, {});
  if (const std::optional<Token> end = encoder.end_of_turn()) known.push_back(*end);
  std::ranges::sort(known);
  known.erase(std::ranges::unique(known).begin(), known.end());
  return known;
}

}  // namespace plimsoll
