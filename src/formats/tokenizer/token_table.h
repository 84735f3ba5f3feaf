// The texts of tokens by id, and the ids by text, in flat tables: for each token its bytes and 8 to 16 more. Ids may have gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tokenizer/token.h"

namespace plimsoll {

inline constexpr std::size_t kMostTokens = 1 << 20;

class TokenTable {
 public:
  // Adds a token; the order is free. finish() makes the table usable. E-TOKENIZER (in `where`): an id is too high, or an id or
  // text repeats.
  void add(std::string_view text, std::uint64_t id, const std::string& where);
  void finish(const std::string& where);
  // Like finish(), but returns the first token whose text an earlier token has; kNoToken: none.
  Token index(const std::string& where);

  // One past the highest id.
  std::size_t size() const { return begin_.empty() ? 0 : begin_.size() - 1; }
  // Number of tokens.
  std::size_t count() const { return count_; }
  std::size_t longest() const { return longest_; }
  bool has(Token id) const { return id < size() && present_[id]; }
  std::string_view text(Token id) const { return std::string_view(bytes_).substr(begin_[id], begin_[id + 1u] - begin_[id]); }
  // kNoToken if no token has this text.
  Token find(std::string_view text) const;

 private:
  struct Entry {
    std::uint32_t begin, id;
  };
  std::size_t slot_of(std::string_view text) const;

  std::vector<Entry> entries_;  // before finish()
  std::string bytes_;
  std::vector<std::uint32_t> begin_;
  std::vector<bool> present_;
  std::vector<Token> slots_;  // by hash, open addressing
  std::size_t count_ = 0, longest_ = 0;
};

}  // namespace plimsoll
