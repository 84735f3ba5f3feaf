// A conversation that goes on: its turns as tokens that a context has room for, with a prompt for the next answer.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/chat_encoder.h"

namespace plimsoll {

struct Turn {
  std::string role, content;  // "system", "user", "assistant"
};

struct DialoguePrompt {
  std::string text;
  std::vector<Token> tokens;
  std::size_t dropped = 0;  // turns that are left out
};

// `turns` ends with a turn of the user. Where the whole takes more than `room` tokens, the oldest turn of the user is left out
// with the answer to it, then the next one, until the rest fits. System turns at the beginning stay. E-CHAT-CONTEXT: they and the
// last turn alone do not fit into `most` tokens. Else as ChatEncoder::encode_prompt(), with places such as "chat:3", the third
// turn.
DialoguePrompt fit_dialogue(ChatEncoder& encoder, std::span<const Turn> turns, std::size_t room, std::size_t most);

}  // namespace plimsoll
