#include "autodiff/shard_bounds.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/ceil_div.h"
#include "ops/update/update.h"

namespace plimsoll {
namespace {

std::int64_t tiles_of(std::int64_t elements) { return ceil_div(elements, ops::kNormTile); }

std::vector<std::size_t> emptiest_first(const std::vector<std::int64_t>& load, std::size_t count) {
  std::vector<std::size_t> ranks(load.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::ranges::stable_sort(ranks, {}, [&](std::size_t rank) { return load[rank]; });
  ranks.resize(count);
  return ranks;
}

}  // namespace

bool is_cut(const CutTensor& tensor, std::int64_t ranks) { return tensor.divisible && tiles_of(tensor.elements) >= ranks; }

// Tensors of many tiles first: each rank gets as many tiles, the emptiest ranks the rest. Then whole tensors, the largest first.
std::vector<std::vector<std::int64_t>> shard_bounds(const std::vector<CutTensor>& tensors, std::int64_t ranks) {
  std::vector<std::vector<std::int64_t>> bounds(tensors.size());
  std::vector<std::int64_t> load(static_cast<std::size_t>(ranks), 0);
  std::vector<std::size_t> whole;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (!is_cut(tensors[i], ranks)) {
      whole.push_back(i);
      continue;
    }
    const std::int64_t all = tensors[i].elements, tiles = tiles_of(all);
    std::vector<std::int64_t> share(static_cast<std::size_t>(ranks), tiles / ranks);
    for (const std::size_t rank : emptiest_first(load, static_cast<std::size_t>(tiles % ranks))) ++share[rank];
    std::vector<std::int64_t>& cuts = bounds[i] = {0};
    for (const std::int64_t of : share) cuts.push_back(std::min(all, cuts.back() + of * ops::kNormTile));
    for (std::size_t rank = 0; rank < load.size(); ++rank) load[rank] += cuts[rank + 1] - cuts[rank];
  }
  std::ranges::stable_sort(whole, std::greater<>(), [&](std::size_t i) { return tensors[i].elements; });
  for (const std::size_t i : whole) {
    const std::size_t rank = emptiest_first(load, 1).front();
    for (std::size_t k = 0; k <= load.size(); ++k) bounds[i].push_back(k <= rank ? 0 : tensors[i].elements);
    load[rank] += tensors[i].elements;
  }
  return bounds;
}

std::vector<std::int64_t> even_bounds(std::int64_t elements, std::int64_t ranks) {
  std::vector<std::int64_t> cuts{0};
  for (std::int64_t rank = 1; rank <= ranks; ++rank) {
    cuts.push_back(std::min(elements, tiles_of(elements) * rank / ranks * ops::kNormTile));
  }
  return cuts;
}

}  // namespace plimsoll
