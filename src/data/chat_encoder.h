// A sample of a conversation as tokens, with the tokens that are trained: those of the assistant's turns, the end of a turn
// included.
// A template with {% generation %} marks says which text these are. With any other, each trained turn is found by rendering: the
// messages before it with a generation prompt must be how the rendering up to it begins, and that how the whole begins. That
// takes time with the square of the turns, so all renderings of a sample together are limited to a million messages. Special
// tokens that stand in user, system and tool texts stay text; those that the template and the assistant write are tokens.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/conversation.h"
#include "formats/chat_template.h"
#include "formats/tokenizer/tokenizer.h"

namespace plimsoll {

enum class ChatLoss {
  all,   // on every turn of the assistant
  last,  // on the last one; messages behind it are left out
};

struct ChatOptions {
  ChatLoss loss = ChatLoss::all;
  std::optional<Token> end;  // follows a sample that is no conversation
  std::tm now{};             // what templates take for the time
};

// Tokens [begin, end) that come from a turn of the assistant and are trained.
struct EncodedTurn {
  std::optional<std::size_t> message;  // its index; nothing where the template's marks do not tell
  std::size_t begin = 0, end = 0;
};

struct EncodedSample {
  std::vector<Token> tokens;
  std::vector<std::uint8_t> trained;  // 1 where the token counts as a target
  std::vector<EncodedTurn> turns;     // of a conversation, in order
  bool read_clock = false;            // the template used the time
  // True if a text has a begin or an end token of its own, so that none was added.
  bool own_begin = false, own_end = false;

  // Without any, the sample trains nothing.
  std::size_t trained_tokens() const;
};

struct EncodedPrompt {
  std::string text;
  std::vector<Token> tokens;
};

class ChatEncoder {
 public:
  // Keeps references to the tokenizer and the templates, which may be null where no sample is a conversation.
  ChatEncoder(Tokenizer& tokenizer, const ChatTemplates* templates, ChatOptions options);

  // E-CHAT-TEMPLATE: there is none, or it does not take the conversation. E-CHAT-MASK: the trained turns cannot be told.
  EncodedSample encode(const ChatSample& sample);
  // The whole of a conversation as text.
  std::string render(const ChatSample& sample) const;
  // The same with a generation prompt, for an answer to it.
  EncodedPrompt encode_prompt(const ChatSample& sample);
  // The added token that the template writes right behind an answer, as most do: a model that was trained with it ends there.
  std::optional<Token> end_of_turn();

 private:
  struct Span;
  jinja::Rendering render(const ChatSample& sample, const jinja::Value& messages, std::size_t count, bool prompt) const;
  void add_tokens(const jinja::Text& text, const std::vector<Span>& spans, EncodedSample& result);
  static void check_renderings(const ChatSample& sample, std::size_t count, const std::vector<bool>& wanted);
  EncodedSample encode_chat(const ChatSample& sample);
  EncodedSample encode_text(const ChatSample& sample);
  EncodedSample encode_completion(const ChatSample& sample);
  std::vector<Span> marked_spans(const ChatSample& sample, const jinja::Text& text, const std::vector<std::size_t>& turns,
                                 const std::vector<bool>& wanted) const;
  std::vector<Span> rendered_spans(const ChatSample& sample, const jinja::Value& messages, std::size_t count,
                                   const std::string& whole, const std::vector<bool>& wanted) const;

  Tokenizer& tokenizer_;
  const ChatTemplates* templates_;
  ChatOptions options_;
};

}  // namespace plimsoll
