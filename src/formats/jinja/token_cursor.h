// The tokens of a template in order, with a cursor.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/lexer.h"

namespace plimsoll::jinja {

class TokenCursor {
 protected:
  static constexpr unsigned kMostDepth = 200;  // of expressions and blocks

  // Keeps a reference to the name.
  TokenCursor(std::string_view source, const std::string& name) : name_(name), tokens_(lex(source, name)) {}

  // Levels of nesting during parsing, released by the destructor. Nested parts take one, and so does each operator of a chain.
  class Levels {
   public:
    explicit Levels(TokenCursor& cursor, unsigned count = 1) : cursor_(cursor) {
      while (count_ < count) add();
    }
    ~Levels() { cursor_.depth_ -= count_; }
    Levels(const Levels&) = delete;
    Levels& operator=(const Levels&) = delete;
    void add();

   private:
    TokenCursor& cursor_;
    unsigned count_ = 0;
  };

  [[noreturn]] void fail(std::string why, std::string expected = {}) const;
  // The error for an unexpected token.
  [[noreturn]] void fail_here(std::string expected) const;

  const LexerToken& here(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  std::string shown() const;
  bool at_name(std::string_view name, std::size_t ahead = 0) const {
    return here(ahead).kind == TokenKind::name && here(ahead).text == name;
  }
  bool at_symbol(std::string_view symbol, std::size_t ahead = 0) const {
    return here(ahead).kind == TokenKind::symbol && here(ahead).text == symbol;
  }
  bool skip_name(std::string_view name) { return at_name(name) && (++at_, true); }
  bool skip_symbol(std::string_view symbol) { return at_symbol(symbol) && (++at_, true); }
  void need_name(std::string_view name);
  void need_symbol(std::string_view symbol);
  void need(TokenKind kind, const char* what);
  std::string identifier();

  const std::string& name_;
  std::vector<LexerToken> tokens_;
  std::size_t at_ = 0;
  unsigned depth_ = 0;
};

}  // namespace plimsoll::jinja
