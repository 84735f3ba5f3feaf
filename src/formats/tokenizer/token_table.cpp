#define XXH_INLINE_ALL
#include "formats/tokenizer/token_table.h"

#include <fmt/core.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "formats/tokenizer/tokenizer_error.h"

namespace plimsoll {

void TokenTable::add(std::string_view text, std::uint64_t id, const std::string& where) {
  if (id >= kMostTokens)
    throw tokenizer_error(where, fmt::format("it has a token with the id {}", id), fmt::format("ids below {}", kMostTokens));
  if (entries_.size() == kMostTokens)
    throw tokenizer_error(where, "it has too many tokens", fmt::format("at most {}", kMostTokens));
  if (bytes_.size() + text.size() > 0xFFFFFFFFu) throw tokenizer_error(where, "its tokens have too many bytes");
  entries_.push_back({static_cast<std::uint32_t>(bytes_.size()), static_cast<std::uint32_t>(id)});
  bytes_ += text;
}

void TokenTable::finish(const std::string& where) {
  const Token same = index(where);
  if (same == kNoToken) return;
  throw tokenizer_error(where, fmt::format("its tokens {} and {} have the same text", find(text(same)), same));
}

Token TokenTable::index(const std::string& where) {
  count_ = entries_.size();
  const auto end_of = [&](std::size_t i) {
    return i + 1 < entries_.size() ? entries_[i + 1].begin : static_cast<std::uint32_t>(bytes_.size());
  };
  std::size_t size = 0;
  for (const Entry& entry : entries_) size = std::max<std::size_t>(size, entry.id + std::size_t{1});
  begin_.assign(size == 0 ? 0 : size + 1, 0);
  present_.assign(size, false);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::uint32_t id = entries_[i].id;
    if (present_[id]) throw tokenizer_error(where, fmt::format("it has two tokens with the id {}", id));
    present_[id] = true;
    begin_[id + 1] = end_of(i) - entries_[i].begin;
    longest_ = std::max<std::size_t>(longest_, begin_[id + 1]);
  }
  for (std::size_t id = 0; id < size; ++id) begin_[id + 1] += begin_[id];
  std::string bytes(bytes_.size(), '\0');
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    std::copy(bytes_.begin() + entries_[i].begin, bytes_.begin() + end_of(i), bytes.begin() + begin_[entries_[i].id]);
  }
  bytes_ = std::move(bytes);
  std::vector<Entry>().swap(entries_);

  slots_.assign(std::bit_ceil(count_ + count_ / 2 + 2), kNoToken);
  for (std::size_t id = 0; id < size; ++id) {
    if (!present_[id]) continue;
    Token& slot = slots_[slot_of(text(static_cast<Token>(id)))];
    if (slot != kNoToken) return static_cast<Token>(id);
    slot = static_cast<Token>(id);
  }
  return kNoToken;
}

// The slot of the text, or the free slot for it.
std::size_t TokenTable::slot_of(std::string_view text) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = XXH3_64bits(text.data(), text.size()) & mask;
  while (slots_[at] != kNoToken && this->text(slots_[at]) != text) at = (at + 1) & mask;
  return at;
}

Token TokenTable::find(std::string_view text) const {
  return slots_.empty() || text.size() > longest_ ? kNoToken : slots_[slot_of(text)];
}

}  // namespace plimsoll
