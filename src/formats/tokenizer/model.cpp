#include "formats/tokenizer/model.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <utility>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/tokenizer_error.h"

namespace plimsoll {
BpeModel::BpeModel(const TokenTable& tokens, MergeTable merges, BpeRules rules, std::string where)
    : tokens_(tokens), merges_(std::move(merges)), rules_(std::move(rules)), where_(std::move(where)) {
  for (std::size_t i = 0; i < low_.size(); ++i) {
    std::string text;
    append_character(text, static_cast<char32_t>(i));
    low_[i] = tokens_.find(text);
  }
  for (unsigned byte = 0; byte < 256; ++byte) bytes_[byte] = tokens_.find(fmt::format("<0x{:02X}>", byte));
  if (!rules_.unknown.empty()) unknown_ = tokens_.find(rules_.unknown);
}

Token BpeModel::symbol_token(char32_t character, std::string_view text) const {
  return character < low_.size() ? low_[character] : tokens_.find(text);
}

// False: one of the bytes has no token.
bool BpeModel::add_bytes(std::string_view symbol) {
  const auto token = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)]; };
  if (std::ranges::any_of(symbol, [&](char byte) { return token(byte) == kNoToken; })) return false;
  for (const char byte : symbol) symbols_.push_back(token(byte));
  return true;
}

void BpeModel::find_symbols(std::string_view piece) {
  symbols_.clear();
  const bool decorated = !rules_.continuing_prefix.empty() || !rules_.end_suffix.empty();
  std::size_t unknown = 0;  // tokens of the kind that wait
  std::string text;
  for (std::size_t at = 0; at < piece.size();) {
    const std::size_t begin = at;
    const char32_t character = next_character(piece, at);
    std::string_view symbol = piece.substr(begin, at - begin);
    Token token;
    if (decorated) {
      text = begin == 0 ? "" : rules_.continuing_prefix;
      text += symbol;
      if (at == piece.size()) text += rules_.end_suffix;
      symbol = text;
      token = tokens_.find(text);
    } else {
      token = symbol_token(character, symbol);
    }
    if (token != kNoToken) {
      for (; unknown > 0; --unknown) symbols_.push_back(unknown_);
      symbols_.push_back(token);
      continue;
    }
    // Unknown characters before these bytes come after them: so the published implementation does it.
    if (rules_.byte_fallback && add_bytes(symbol)) continue;
    if (rules_.unknown.empty()) continue;
    if (unknown_ == kNoToken) {
      throw tokenizer_error(where_, fmt::format("the text has an unknown character, and no token is '{}'", rules_.unknown));
    }
    if (unknown > 0 && !rules_.fuse_unknown) symbols_.push_back(unknown_);
    unknown = 1;
  }
  if (unknown > 0) symbols_.push_back(unknown_);
}

void BpeModel::encode(std::string_view piece, std::vector<Token>& out) {
  if (piece.empty()) return;
  WordCache::Entry* entry = nullptr;
  if (piece.size() <= WordCache::kMaxBytes) {
    entry = &cache_.entry(piece);
    if (WordCache::holds(*entry, piece)) {
      out.insert(out.end(), entry->tokens.begin(), entry->tokens.begin() + entry->count);
      return;
    }
  }
  const std::size_t before = out.size();
  const Token whole = rules_.ignore_merges ? tokens_.find(piece) : kNoToken;
  if (whole != kNoToken) {
    out.push_back(whole);
  } else {
    find_symbols(piece);
    merger_.merge(merges_, symbols_, out);
  }
  const std::span<const Token> made = std::span(out).subspan(before);
  if (entry != nullptr && made.size() <= WordCache::kMaxTokens) WordCache::store(*entry, piece, made);
}

WordPieceModel::WordPieceModel(const TokenTable& tokens, std::string unknown, std::string prefix, std::size_t most_characters,
                               const std::string& where)
    : tokens_(tokens), unknown_(tokens.find(unknown)), prefix_(std::move(prefix)), most_characters_(most_characters) {
  if (unknown_ == kNoToken) throw tokenizer_error(where, fmt::format("no token is '{}', its unk_token", unknown));
}

void WordPieceModel::encode(std::string_view piece, std::vector<Token>& out) const {
  if (piece.empty()) return;
  if (count_characters(piece) > most_characters_) return out.push_back(unknown_);
  const std::size_t before = out.size();
  std::string text;
  for (std::size_t begin = 0; begin < piece.size();) {
    const std::string_view prefix = begin == 0 ? std::string_view() : std::string_view(prefix_);
    text = prefix;
    text += piece.substr(begin, tokens_.longest());
    std::size_t size = text.size();
    // Behind a character: what the longest token leaves may end inside of one.
    while (size > prefix.size() && begin + size - prefix.size() < piece.size() &&
           (static_cast<unsigned char>(piece[begin + size - prefix.size()]) & 0xC0) == 0x80) {
      --size;
    }
    Token token = kNoToken;
    for (; size > prefix.size(); size = character_before(text, size)) {
      token = tokens_.find(std::string_view(text).substr(0, size));
      if (token != kNoToken) break;
    }
    if (token == kNoToken) {
      out.resize(before);
      return out.push_back(unknown_);
    }
    out.push_back(token);
    begin += size - prefix.size();
  }
}

}  // namespace plimsoll
