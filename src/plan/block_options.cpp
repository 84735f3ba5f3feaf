#include "plan/block_options.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

namespace plimsoll {
namespace {

using Positions = std::uint32_t;  // a set of candidates, one bit each

class Options {
 public:
  Options(const Graph& graph, const GraphBlock& block, NodeKernels& kernels) : graph_(graph), block_(block) {
    for (std::size_t i = 0; i < block.nodes.size(); ++i) {
      position_[block.nodes[i]] = i;
      seconds_.push_back(graph.nodes[block.nodes[i]].op->view ? 0 : kernels.of(graph, block.nodes[i], 1).add.seconds);
    }
    find_saved();
    find_candidates();
  }

  std::size_t candidates() const { return candidates_.size(); }

  // What follows where the nodes of `dropped` are not kept: only those run again that something needs.
  BlockOption option(Positions dropped) const {
    Walk walk{std::vector<char>(block_.nodes.size(), 0), {}};
    for (std::size_t i = 0; i < candidates_.size(); ++i) walk.dropped[candidates_[i]] = dropped >> i & 1;
    BlockOption result;
    std::set<std::size_t> again;
    for (const ValueId value : saved_) need(value, walk, again);
    result.again.assign(again.begin(), again.end());
    for (const std::size_t position : again) result.seconds += seconds_[position];
    for (const ValueId value : walk.kept) result.kept += align_up(graph_.values[value].bytes(), kAlignment).n;
    return result;
  }

 private:
  struct Walk {
    std::vector<char> dropped;  // by position
    std::set<ValueId> kept;
  };

  // The position of the node that makes a value, through views; the end where no node of the block does.
  std::size_t maker(ValueId value) const {
    const auto found = position_.find(graph_.values[origin_of(graph_, value)].producer);
    return found == position_.end() ? block_.nodes.size() : found->second;
  }

  // What backward nodes read of the block, but for its output, which the next block keeps.
  void find_saved() {
    std::set<ValueId> seen;
    for (const NodeId id : graph_.section_order(Section::micro)) {
      if (!graph_.nodes[id].backward) continue;
      for (const ValueId input : graph_.nodes[id].inputs) {
        const ValueId value = origin_of(graph_, input);
        const std::size_t made = maker(value);
        if (made + 1 < block_.nodes.size() && seen.insert(value).second) saved_.push_back(value);
      }
    }
  }

  void find_candidates() {
    std::set<std::size_t> reached;
    for (const ValueId value : saved_) reach(value, reached);
    candidates_.assign(reached.begin(), reached.end());
    candidates_.resize(std::min<std::size_t>(candidates_.size(), 8 * sizeof(Positions)));
  }

  // Nodes that would run again if nothing of the block were kept.
  void reach(ValueId value, std::set<std::size_t>& reached) const {
    const std::size_t made = maker(value);
    if (made + 1 >= block_.nodes.size() || !graph_.nodes[block_.nodes[made]].op->replayable || !reached.insert(made).second)
      return;
    for (const ValueId input : graph_.nodes[block_.nodes[made]].inputs) reach(input, reached);
  }

  void need(ValueId value, Walk& walk, std::set<std::size_t>& again) const {
    const std::size_t made = maker(value);
    if (made >= block_.nodes.size()) return;
    if (!walk.dropped[made]) {
      if (made + 1 < block_.nodes.size()) walk.kept.insert(origin_of(graph_, value));
      return;
    }
    if (!again.insert(made).second) return;
    for (const ValueId input : graph_.nodes[block_.nodes[made]].inputs) need(input, walk, again);
  }

  const Graph& graph_;
  const GraphBlock& block_;
  std::map<NodeId, std::size_t> position_;
  std::vector<double> seconds_;          // by position
  std::vector<ValueId> saved_;           // origins
  std::vector<std::size_t> candidates_;  // positions
};

std::vector<BlockOption> every_set(const Options& options) {
  std::vector<BlockOption> all;
  for (Positions dropped = 0; dropped < Positions{1} << options.candidates(); ++dropped) all.push_back(options.option(dropped));
  return all;
}

// Drops one candidate after the other, or two where one alone saves nothing: always what saves most bytes for its seconds.
std::vector<BlockOption> one_by_one(const Options& options) {
  const std::size_t count = options.candidates();
  Positions dropped = 0;
  std::vector<BlockOption> all{options.option(dropped)};
  for (;;) {
    double best_rate = 0;
    Positions best = 0;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t j = i; j < count; ++j) {
        const Positions next = dropped | Positions{1} << i | Positions{1} << j;
        const BlockOption option = options.option(next);
        const auto saved = static_cast<double>(all.back().kept - option.kept);
        const double rate = saved / std::max(option.seconds - all.back().seconds, 1e-12);
        if (next == dropped || saved <= 0 || rate <= best_rate) continue;
        best_rate = rate;
        best = next;
      }
    }
    if (best == 0) return all;
    dropped = best;
    all.push_back(options.option(dropped));
  }
}

// The lower convex hull of seconds over bytes, from what keeps everything, which comes first, to the fewest bytes. Where numbers
// are of several widths, some sets keep more than that: they cost time for nothing.
std::vector<BlockOption> hull(std::vector<BlockOption> all) {
  std::erase_if(all, [most = all.front().kept](const BlockOption& option) { return option.kept > most; });
  std::stable_sort(all.begin(), all.end(), [](const BlockOption& a, const BlockOption& b) {
    return std::pair(-a.kept, a.seconds) < std::pair(-b.kept, b.seconds);
  });
  const auto above = [](const BlockOption& a, const BlockOption& b, const BlockOption& c) {
    return (b.seconds - a.seconds) * static_cast<double>(a.kept - c.kept) >=
           (c.seconds - a.seconds) * static_cast<double>(a.kept - b.kept);
  };
  std::vector<BlockOption> curve;
  for (BlockOption& option : all) {
    if (!curve.empty() && curve.back().kept == option.kept) continue;
    while (curve.size() >= 2 && above(curve[curve.size() - 2], curve.back(), option)) curve.pop_back();
    curve.push_back(std::move(option));
  }
  return curve;
}

}  // namespace

std::vector<BlockOption> block_curve(const Graph& graph, const GraphBlock& block, NodeKernels& kernels) {
  constexpr std::size_t kMostEnumerated = 14;
  const Options options(graph, block, kernels);
  return hull(options.candidates() <= kMostEnumerated ? every_set(options) : one_by_one(options));
}

// Takes out the points that the curve misses least.
std::vector<BlockOption> block_options(std::vector<BlockOption> curve, std::size_t most) {
  const auto area = [&](std::size_t i) {
    const BlockOption &a = curve[i - 1], &b = curve[i], &c = curve[i + 1];
    return (c.seconds - a.seconds) * static_cast<double>(a.kept - b.kept) -
           (b.seconds - a.seconds) * static_cast<double>(a.kept - c.kept);
  };
  while (curve.size() > most + 2) {
    std::size_t least = 1;
    for (std::size_t i = 2; i + 1 < curve.size(); ++i) least = area(i) < area(least) ? i : least;
    curve.erase(curve.begin() + static_cast<std::ptrdiff_t>(least));
  }
  if (curve.size() < 3) return {};
  return {curve.begin() + 1, curve.end() - 1};
}

}  // namespace plimsoll
