// A continuing conversation: its turns as tokens that fit the context, with a prompt for the next answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/chat_encoder.h"
#include "formats/chat_template.h"
#include "formats/tokenizer/tokenizer.h"

namespace plimsoll {

struct Turn {
  std::string role, content;  // "system", "user", "assistant"
};

struct DialoguePrompt {
  std::string text;
  std::vector<Token> tokens;
  std::size_t dropped = 0;  // turns left out
};

// `turns` ends with a turn of the user. If the whole takes more than `room` tokens, the oldest turn of the user is left out with
// the answer to it, then the next one, until the rest fits. System turns at the beginning stay. E-CHAT-CONTEXT: these and the
// last turn alone take more than `most` tokens. Other errors: see ChatEncoder::encode_prompt(); "chat:3" is the third turn.
DialoguePrompt fit_dialogue(ChatEncoder& encoder, std::span<const Turn> turns, std::size_t room, std::size_t most);

// The tokens that end an answer, sorted: `known`, the tokenizer's end token, and the token that the template writes after an
// answer.
std::vector<std::int64_t> ends_of_answers(Tokenizer& tokenizer, const ChatTemplates& templates, std::vector<std::int64_t> known);

}  // namespace plimsoll
