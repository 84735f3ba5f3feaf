#include "formats/jinja/token_cursor.h"

#include <fmt/core.h>

#include "formats/jinja/fault.h"

namespace plimsoll::jinja {

void TokenCursor::Levels::add() {
  ++count_;
  if (++cursor_.depth_ > kMostDepth) cursor_.fail(fmt::format("it is nested deeper than {}", kMostDepth));
}

void TokenCursor::fail(std::string why, std::string expected) const {
  throw template_error(name_, here().line, std::move(why), std::move(expected));
}

void TokenCursor::fail_here(std::string expected) const { fail(fmt::format("unexpected {}", shown()), std::move(expected)); }

std::string TokenCursor::shown() const {
  switch (here().kind) {
    case TokenKind::end: return "end of the template";
    case TokenKind::block_end: return "'%}'";
    case TokenKind::write_end: return "'}}'";
    case TokenKind::number: return here().text;
    default: return fmt::format("'{}'", here().text.substr(0, 40));
  }
}

void TokenCursor::need_name(std::string_view name) {
  if (!skip_name(name)) fail_here(fmt::format("'{}'", name));
}

void TokenCursor::need_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail_here(fmt::format("'{}'", symbol));
}

void TokenCursor::need(TokenKind kind, const char* what) {
  if (here().kind != kind) fail_here(what);
  ++at_;
}

std::string TokenCursor::identifier() {
  if (here().kind != TokenKind::name) fail_here("a name");
  return tokens_[at_++].text;
}

}  // namespace plimsoll::jinja
