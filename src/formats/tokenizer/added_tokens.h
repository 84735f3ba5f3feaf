// The added tokens of a tokenizer.json: texts that are one token wherever they occur. They are cut out of a text before
// everything else: tokens that are not normalised from the raw text, the others from the normalised one. Of several candidates
// the leftmost counts, then the longest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/byte_range.h"
#include "formats/tokenizer/normalizer.h"
#include "formats/tokenizer/token_table.h"

namespace plimsoll {

struct AddedTokenEntry {
  std::string content;
  Token id = kNoToken;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
  std::string normalized_content;  // if it is normalised
  // The text that decoding yields.
  const std::string& decoded() const { return normalized ? normalized_content : content; }
};

// A part of a text: an added token, or text between them.
struct CutPart {
  std::size_t begin = 0, end = 0;
  Token token = kNoToken;
};

// A set of texts that are found from left to right, the longest first at each place. O(text · log texts) if few texts begin
// alike.
class TextSet {
 public:
  // `texts`: each with the index that find() returns. E-TOKENIZER: a text occurs twice, or is empty.
  void build(std::vector<std::pair<std::string_view, std::uint32_t>> texts, const std::string& where);
  bool empty() const { return texts_.empty(); }

  struct Found {
    std::size_t begin = 0, size = 0;
    std::uint32_t entry = 0;
  };
  // The first text at `from` or after it; size 0: there is none. `accepts` leaves out the matches for which it returns false;
  // null: all count.
  using Accepts = std::function<bool(const Found&)>;
  Found find(std::string_view text, std::size_t from, const Accepts* accepts = nullptr) const;

 private:
  struct Text {
    std::string_view text;
    std::uint32_t entry = 0;
    std::int32_t parent = -1;  // index of the longest other text that this one begins with; -1: none
  };
  const Text* longest_at(std::string_view text, std::size_t at, const Accepts* accepts) const;

  std::vector<Text> texts_;  // sorted
  std::vector<bool> first_ = std::vector<bool>(256);
};

class AddedTokens {
 public:
  static constexpr std::size_t kMost = 1 << 16, kMostBytes = 16 << 10;

  // `entries`: in the order of the file. Texts that the vocabulary lacks get the ids after it, as in the published
  // implementation. E-TOKENIZER: the file gives a token another id, two tokens look alike, or tokens are too many or too long.
  void build(std::vector<AddedTokenEntry> entries, const TokenTable& tokens, const Normalizer& normalizer,
             const std::string& where);

  const std::vector<AddedTokenEntry>& entries() const { return entries_; }
  const AddedTokenEntry* find(Token id) const;
  const AddedTokenEntry* find(std::string_view content) const;

  // Cuts the raw text, or a normalised fragment of it, into parts. A special token that touches the bytes of `ordinary`, which
  // are sorted, stays text.
  std::vector<CutPart> cut(std::string_view text, bool normalized, std::span<const ByteRange> ordinary = {}) const;

 private:
  std::vector<AddedTokenEntry> entries_;  // by id
  TextSet raw_, normalized_;
};

}  // namespace plimsoll
