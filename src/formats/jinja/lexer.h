// The tokens of a template, with white space removed according to trim_blocks, lstrip_blocks and the signs - and +.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/value.h"

namespace plimsoll::jinja {

enum class TokenKind { text, write_begin, write_end, block_begin, block_end, name, string, number, symbol, end };

struct LexerToken {
  TokenKind kind = TokenKind::end;
  std::string text;  // the content of a text or string; the name or symbol itself
  Value number;
  int line = 1;
};

// The last token is `end`. E-CHAT-TEMPLATE: a syntax error.
std::vector<LexerToken> lex(std::string_view source, const std::string& name);

}  // namespace plimsoll::jinja
