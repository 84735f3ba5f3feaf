// Merges the symbols of a piece of text by rank, the leftmost first: a scan for a few of them, a heap for many, O(n log n).
#pragma once

#include <cstdint>
#include <vector>

#include "formats/merge_table.h"

namespace plimsoll {

class PieceMerger {
 public:
  // Appends what remains of the symbols, which are used up.
  void merge(const MergeTable& merges, std::vector<Token>& symbols, std::vector<Token>& out);

 private:
  struct Node {
    std::uint32_t previous, next;
    Token id;
  };
  static void merge_few(const MergeTable& merges, std::vector<Token>& symbols, std::vector<Token>& out);
  void merge_many(const MergeTable& merges, const std::vector<Token>& symbols, std::vector<Token>& out);

  std::vector<Node> nodes_;  // kept from piece to piece
};

}  // namespace plimsoll
