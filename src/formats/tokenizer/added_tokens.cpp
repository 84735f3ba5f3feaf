#include "formats/tokenizer/added_tokens.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "formats/tokenizer/character.h"
#include "formats/tokenizer/pattern.h"
#include "formats/tokenizer/tokenizer_error.h"

namespace plimsoll {

void TextSet::build(std::vector<std::pair<std::string_view, std::uint32_t>> texts, const std::string& where) {
  std::ranges::sort(texts);
  texts_.clear();
  std::vector<std::int32_t> open;  // the previous text and the texts that it begins with
  for (const auto& [text, entry] : texts) {
    if (text.empty()) throw tokenizer_error(where, "an added token is empty once it is normalised");
    while (!open.empty() && !text.starts_with(texts_[static_cast<std::size_t>(open.back())].text)) open.pop_back();
    const std::int32_t parent = open.empty() ? -1 : open.back();
    if (parent >= 0 && texts_[static_cast<std::size_t>(parent)].text == text) {
      throw tokenizer_error(where, fmt::format("two added tokens look like '{}'", text.substr(0, 40)));
    }
    open.push_back(static_cast<std::int32_t>(texts_.size()));
    texts_.push_back({text, entry, parent});
    first_[static_cast<unsigned char>(text[0])] = true;
  }
}

const TextSet::Text* TextSet::longest_at(std::string_view whole, std::size_t at, const Accepts* accepts) const {
  const std::string_view text = whole.substr(at);
  const auto above = std::upper_bound(texts_.begin(), texts_.end(), text,
                                      [](std::string_view value, const Text& each) { return value < each.text; });
  if (above == texts_.begin()) return nullptr;
  // The texts that `text` begins with are the one before `above` or among the texts that this one begins with.
  auto index = static_cast<std::int32_t>(above - texts_.begin()) - 1;
  const std::string_view nearest = texts_[static_cast<std::size_t>(index)].text;
  const auto same = std::mismatch(nearest.begin(), nearest.end(), text.begin(), text.end()).first - nearest.begin();
  const auto fits = [&](const Text& each) {
    return std::ssize(each.text) <= same && (accepts == nullptr || (*accepts)({at, each.text.size(), each.entry}));
  };
  while (index >= 0 && !fits(texts_[static_cast<std::size_t>(index)])) index = texts_[static_cast<std::size_t>(index)].parent;
  return index < 0 ? nullptr : &texts_[static_cast<std::size_t>(index)];
}

TextSet::Found TextSet::find(std::string_view text, std::size_t from, const Accepts* accepts) const {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (!first_[static_cast<unsigned char>(text[at])]) continue;
    if (const Text* found = longest_at(text, at, accepts)) return {at, found->text.size(), found->entry};
  }
  return {};
}

namespace {

// \w of Rust's regular expressions.
bool is_word(std::string_view character) {
  static const Pattern pattern(R"(\A[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d}])", "added_tokens");
  std::vector<Match> matches;
  pattern.find_all(character, matches);
  return !matches.empty();
}

bool ends_with_word(std::string_view text) { return !text.empty() && is_word(text.substr(character_before(text, text.size()))); }

bool begins_with_word(std::string_view text) {
  if (text.empty()) return false;
  std::size_t end = 0;
  next_character(text, end);
  return is_word(text.substr(0, end));
}

}  // namespace

void AddedTokens::build(std::vector<AddedTokenEntry> entries, const TokenTable& tokens, const Normalizer& normalizer,
                        const std::string& where) {
  std::unordered_map<std::string_view, Token> ids;  // of the texts added so far
  std::map<Token, AddedTokenEntry> by_id;
  std::map<Token, bool> special;
  std::size_t next = tokens.count();
  for (const AddedTokenEntry& entry : entries) {
    if (entry.content.empty()) continue;
    Token id = kNoToken;
    if (const auto found = ids.find(entry.content); found != ids.end()) {
      id = found->second;
    } else if (id = tokens.find(entry.content); id == kNoToken) {
      id = static_cast<Token>(next++);
    }
    if (id != entry.id) {
      throw tokenizer_error(where,
                            fmt::format("its added token '{}' has the id {}, and the vocabulary makes it {}",
                                        std::string_view(entry.content).substr(0, 40), entry.id, id),
                            "the id of the vocabulary, or the next one after it");
    }
    ids.emplace(entry.content, id);
    special[id] = special[id] || entry.special;
    by_id[id] = entry;
  }
  entries_.clear();
  for (auto& [id, entry] : by_id) {
    entry.special = special[id];
    if (entry.normalized) {
      Fragment fragment{entry.content};
      normalizer.apply(fragment);
      entry.normalized_content = std::move(fragment.text);
    }
    entries_.push_back(std::move(entry));
  }
  std::vector<std::pair<std::string_view, std::uint32_t>> raw, normalized;
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    (entries_[i].normalized ? normalized : raw).emplace_back(entries_[i].decoded(), i);
  }
  raw_.build(std::move(raw), where);
  normalized_.build(std::move(normalized), where);
}

const AddedTokenEntry* AddedTokens::find(Token id) const {
  const auto found = std::ranges::lower_bound(entries_, id, {}, &AddedTokenEntry::id);
  return found != entries_.end() && found->id == id ? &*found : nullptr;
}

const AddedTokenEntry* AddedTokens::find(std::string_view content) const {
  const auto found = std::ranges::find(entries_, content, &AddedTokenEntry::content);
  return found != entries_.end() ? &*found : nullptr;
}

std::vector<CutPart> AddedTokens::cut(std::string_view text, bool normalized, std::span<const ByteRange> ordinary) const {
  const TextSet& set = normalized ? normalized_ : raw_;
  const TextSet::Accepts apart = [&](const TextSet::Found& found) {
    if (!entries_[found.entry].special) return true;
    const auto range = std::ranges::upper_bound(ordinary, found.begin, {}, &ByteRange::end);
    return range == ordinary.end() || range->begin >= found.begin + found.size;
  };
  const TextSet::Accepts* const accepts = ordinary.empty() ? nullptr : &apart;
  std::vector<CutPart> parts;
  std::size_t done = 0;
  if (!set.empty()) {
    for (std::size_t from = 0;;) {
      const TextSet::Found found = set.find(text, from, accepts);
      if (found.size == 0) break;
      std::size_t begin = found.begin, end = begin + found.size;
      from = end;
      const AddedTokenEntry& entry = entries_[found.entry];
      if (entry.single_word && (ends_with_word(text.substr(0, begin)) || begins_with_word(text.substr(end)))) continue;
      if (entry.lstrip) begin = std::max(run_begin(text, begin, done, is_white_space), done);
      if (entry.rstrip) end = run_end(text, end, is_white_space);
      if (done < begin) parts.push_back({done, begin});
      parts.push_back({begin, end, entry.id});
      done = std::max(done, end);
    }
  }
  if (done < text.size()) parts.push_back({done, text.size()});
  return parts;
}

}  // namespace plimsoll
