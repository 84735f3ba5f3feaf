#include "formats/tokenizer/merge_table.h"

#include <algorithm>
#include <utility>

namespace plimsoll {

void MergeTable::add(Token left, Token right, Token result) {
  if (slots_.size() < 2 * merges_.size() + 2) grow();
  const std::size_t at = slot_of(left, right);
  slots_[at] = {tag_of(hash_of(left, right)), static_cast<std::uint32_t>(merges_.size())};
  merges_.push_back({left, right, result});
}

void MergeTable::grow() {
  std::vector<Slot> before = std::exchange(slots_, {});
  slots_.assign(std::max<std::size_t>(2 * before.size(), 64), Slot{0, kNoRank});
  for (const Slot& slot : before) {
    if (slot.rank != kNoRank) slots_[slot_of(merges_[slot.rank].left, merges_[slot.rank].right)] = slot;
  }
}

}  // namespace plimsoll
