// The merges of a BPE model by rank, found by their two tokens. A merge takes 12 bytes, and 16 to 32 in the index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "formats/tokenizer/token.h"

namespace plimsoll {

class MergeTable {
 public:
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

  // Adds a merge with the next rank. A repeated pair gets the new rank.
  void add(Token left, Token right, Token result);
  std::size_t size() const { return merges_.size(); }
  // By rank.
  struct Merge {
    Token left, right, result;
  };
  const std::vector<Merge>& all() const { return merges_; }

  // The rank of a merge, lower ranks first; kNoRank if the two tokens do not merge.
  std::uint32_t rank(Token left, Token right) const { return slots_.empty() ? kNoRank : slots_[slot_of(left, right)].rank; }
  Token result(std::uint32_t rank) const { return merges_[rank].result; }

 private:
  struct Slot {
    std::uint32_t tag, rank;
  };
  static std::uint64_t hash_of(Token left, Token right) {
    return (std::uint64_t{left} << 32 | right) * std::uint64_t{0x9E3779B97F4A7C15};
  }
  static std::uint32_t tag_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash >> 16); }
  // The slot of the pair, or the free slot for it.
  std::size_t slot_of(Token left, Token right) const {
    const std::uint64_t hash = hash_of(left, right);
    for (std::size_t at = hash >> 40 & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
      const Slot& slot = slots_[at];
      if (slot.rank == kNoRank) return at;
      const Merge& merge = merges_[slot.rank];
      if (slot.tag == tag_of(hash) && merge.left == left && merge.right == right) return at;
    }
  }
  void grow();

  std::vector<Merge> merges_;
  std::vector<Slot> slots_;
};

}  // namespace plimsoll
