// A sample of a conversation as tokens. The trained tokens are those of the assistant's turns with the ends of the turns. A
// template with {% generation %} marks names the trained text. With any other template each trained turn is found by three
// renderings, each of which must begin with the one before it:
//   messages before the turn, with a generation prompt   |-------->
//   messages up to the turn                              |--------[ trained ]
//   all messages                                         |--------[ trained ]---->
// The time grows with the square of the turns, so the renderings of a sample are limited to a million messages in all.
// Special tokens in user, system and tool texts stay text; those of the template and of the assistant become tokens.
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
  all,   // every turn of the assistant
  last,  // the last turn; messages after it are left out
};

struct ChatOptions {
  ChatLoss loss = ChatLoss::all;
  std::optional<Token> end;  // the token after a sample that is no conversation
  std::tm now{};             // the time for templates
};

// The trained tokens [begin, end) of a turn of the assistant.
struct EncodedTurn {
  std::optional<std::size_t> message;  // its index; absent if the template's marks do not tell
  std::size_t begin = 0, end = 0;
};

struct EncodedSample {
  std::vector<Token> tokens;
  std::vector<std::uint8_t> trained;  // 1 for each token that counts as a target
  std::vector<EncodedTurn> turns;     // of a conversation, in order
  bool read_clock = false;            // the template used the time
  // True if a text has its own begin or end token, so that none was added.
  bool own_begin = false, own_end = false;

  std::size_t trained_tokens() const;
};

struct EncodedPrompt {
  std::string text;
  std::vector<Token> tokens;
};

class ChatEncoder {
 public:
  // Keeps references to the tokenizer and the templates. `templates` may be null if no sample is a conversation.
  ChatEncoder(Tokenizer& tokenizer, const ChatTemplates* templates, ChatOptions options);

  // E-CHAT-TEMPLATE: no template, or one that refuses the conversation. E-CHAT-MASK: the trained turns cannot be found.
  EncodedSample encode(const ChatSample& sample);
  // The whole of a conversation as text.
  std::string render(const ChatSample& sample) const;
  // The whole with a generation prompt for the next answer.
  EncodedPrompt encode_prompt(const ChatSample& sample);
  // The added token that most templates write right after an answer; a model trained with it ends its answers so.
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
