#include "formats/piece_merger.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <queue>

namespace plimsoll {
namespace {

constexpr std::size_t kFew = 64;  // symbols up to which a scan beats a heap

}  // namespace

void PieceMerger::merge(const MergeTable& merges, std::vector<Token>& symbols, std::vector<Token>& out) {
  symbols.size() <= kFew ? merge_few(merges, symbols, out) : merge_many(merges, symbols, out);
}

void PieceMerger::merge_few(const MergeTable& merges, std::vector<Token>& symbols, std::vector<Token>& out) {
  std::array<std::uint32_t, kFew> ranks;  // of merging an element with the next one
  Token* ids = symbols.data();
  std::size_t size = symbols.size();
  const auto rank_at = [&](std::size_t i) { return i + 1 < size ? merges.rank(ids[i], ids[i + 1]) : MergeTable::kNoRank; };
  for (std::size_t i = 0; i < size; ++i) ranks[i] = rank_at(i);
  while (size > 1) {
    const auto best = static_cast<std::size_t>(
        std::min_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(size)) - ranks.begin());
    if (ranks[best] == MergeTable::kNoRank) break;
    ids[best] = merges.result(ranks[best]);
    std::copy(ids + best + 2, ids + size, ids + best + 1);
    std::copy(ranks.begin() + static_cast<std::ptrdiff_t>(best) + 2, ranks.begin() + static_cast<std::ptrdiff_t>(size),
              ranks.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    --size;
    ranks[best] = rank_at(best);
    if (best > 0) ranks[best - 1] = rank_at(best - 1);
  }
  out.insert(out.end(), ids, ids + size);
}

// A linked list, and a heap of (rank, position) whose stale entries are skipped.
void PieceMerger::merge_many(const MergeTable& merges, const std::vector<Token>& symbols, std::vector<Token>& out) {
  const auto size = static_cast<std::uint32_t>(symbols.size());
  nodes_.resize(size);
  for (std::uint32_t i = 0; i < size; ++i) nodes_[i] = {i - 1, i + 1, symbols[i]};
  const auto rank_at = [&](std::uint32_t i) {
    return nodes_[i].next < size ? merges.rank(nodes_[i].id, nodes_[nodes_[i].next].id) : MergeTable::kNoRank;
  };
  std::vector<std::uint64_t> first;
  for (std::uint32_t i = 0; i < size; ++i) {
    if (const std::uint32_t rank = rank_at(i); rank != MergeTable::kNoRank) first.push_back(std::uint64_t{rank} << 32 | i);
  }
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> heap(std::greater<>(), std::move(first));
  const auto push = [&](std::uint32_t i) {
    const std::uint32_t rank = rank_at(i);
    if (rank != MergeTable::kNoRank) heap.push(std::uint64_t{rank} << 32 | i);
  };
  while (!heap.empty()) {
    const auto rank = static_cast<std::uint32_t>(heap.top() >> 32);
    const auto at = static_cast<std::uint32_t>(heap.top());
    heap.pop();
    if (nodes_[at].id == kNoToken || rank_at(at) != rank) continue;
    Node& node = nodes_[at];
    nodes_[node.next].id = kNoToken;
    node.next = nodes_[node.next].next;
    node.id = merges.result(rank);
    if (node.next < size) nodes_[node.next].previous = at;
    push(at);
    if (node.previous < size) push(node.previous);
  }
  for (std::uint32_t i = 0; i < size; i = nodes_[i].next) out.push_back(nodes_[i].id);
}

}  // namespace plimsoll
