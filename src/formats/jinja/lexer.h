// A template in tokens, with white space removed as trim_blocks, lstrip_blocks and the signs - and + say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/value.h"

namespace plimsoll::jinja {

enum class TokenKind { text, write_begin, write_end, block_begin, block_end, name, string, number, symbol, end };

struct LexerToken {
  TokenKind kind = TokenKind::end;
  std::string text;  // of a text or string its content; of a name or symbol itself
  Value number;
  int line = 1;
};

// The last one is `end`. E-CHAT-TEMPLATE: what no template can have.
std::vector<LexerToken> lex(std::string_view source, const std::string& name);

}  // namespace plimsoll::jinja
