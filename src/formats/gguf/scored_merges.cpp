#include "formats/gguf/scored_merges.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "formats/utf8.h"

namespace plimsoll {
namespace {

std::vector<ScoredMerge> splits_of(const TokenTable& table, const std::vector<float>& scores, const std::vector<bool>& merged) {
  std::vector<ScoredMerge> all;
  for (std::uint32_t id = 0; id < table.size(); ++id) {
    if (!merged[id]) continue;
    const std::string_view text = table.text(id);
    const auto characters = static_cast<std::uint16_t>(
        std::min<std::ptrdiff_t>(std::ranges::count_if(text, [](char c) { return !is_utf8_continuation(c); }), 0xffff));
    const std::size_t begin = all.size();
    std::uint16_t before = 0;
    for (std::size_t at = 1; at < text.size(); ++at) {
      if (is_utf8_continuation(text[at])) continue;
      ++before;
      const Token left = table.find(text.substr(0, at)), right = table.find(text.substr(at));
      if (left == kNoToken || right == kNoToken) continue;
      all.push_back({scores[id], static_cast<Token>(id), left, right, static_cast<std::uint32_t>(at), before,
                     static_cast<std::uint16_t>(characters - before)});
    }
    std::sort(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end(),
              [](const ScoredMerge& a, const ScoredMerge& b) { return std::tie(a.left, a.right) < std::tie(b.left, b.right); });
  }
  return all;
}

}  // namespace

std::vector<ScoredMerge> scored_merges(const TokenTable& table, const std::vector<float>& scores,
                                       const std::vector<bool>& merged) {
  std::vector<ScoredMerge> all = splits_of(table, scores, merged);
  std::ranges::stable_sort(all, [](const ScoredMerge& a, const ScoredMerge& b) {
    return std::tie(a.score, a.left_characters, a.right_characters) > std::tie(b.score, b.left_characters, b.right_characters);
  });
  return all;
}

}  // namespace plimsoll
