#include "plan/regions/edges.h"

#include <algorithm>
#include <utility>

#include "plan/regions/stretch.h"
#include "plan/replays/eviction.h"
#include "plan/replays/exchange.h"

namespace plimsoll::regions {
namespace {

using replays::at;
using replays::kNone;
using replays::Problem;
using replays::Replay;

// Sets of ops that run again for the backward pass, from the set that keeps everything to the one with the fewest bytes.
// Positions rise; ops that repeat one for another micro-batch are left out.
std::vector<std::vector<int>> sets_of(const Stretch& stretch) {
  constexpr std::size_t kMostSets = 12;
  replays::Exchange exchange{stretch.turn(), {}, std::vector<char>(stretch.problem().items.size(), 0)};
  for (int position = 0; position < stretch.turn(); ++position) {
    const int like = stretch.what(position).like;
    const bool decides = like < 0 || like == stretch.op(position);
    exchange.again.push_back(decides && stretch.may_run_again(position) ? 1 : 0);
    for (const int item : stretch.what(position).writes) exchange.chosen[at(item)] = decides && stretch.own(item) ? 1 : 0;
  }
  std::vector<std::vector<int>> sets;
  for (replays::Choice& choice : best_choices(stretch.problem(), exchange, kMostSets)) sets.push_back(std::move(choice.again));
  return sets;
}

// Places each run right before the first backward op that reads a dropped result.
class Placement {
 public:
  explicit Placement(const Stretch& stretch) : stretch_(stretch), absent_(at(stretch.size()), 0) {}

  // The results of the op are absent from here on.
  void drop(int position) { absent_[at(position)] = 1; }
  void bring_for(int position) {
    for (const int item : stretch_.what(position).reads) bring(item, position);
  }
  // Makes the item, and first the absent items that it needs.
  void bring(int item, int before) {
    const int maker = stretch_.maker(item);
    if (maker < 0 || !absent_[at(maker)]) return;
    absent_[at(maker)] = 0;
    for (const int read : stretch_.what(maker).reads) bring(read, before);
    replays_.push_back({maker, before});
  }
  const std::vector<Replay>& replays() const { return replays_; }

 private:
  const Stretch& stretch_;
  std::vector<char> absent_;
  std::vector<Replay> replays_;
};

class EdgeFinder {
 public:
  EdgeFinder(const Problem& problem, const Regions& regions, const std::vector<std::int64_t>& live, const EdgeLimits& limits,
             KnownWays* known)
      : facts_(problem, regions),
        live_(live),
        limits_(limits),
        known_(known),
        edges_(at(regions.count())),
        local_(problem.items.size(), kNone) {}

  std::vector<std::vector<Edge>> run() {
    for (int begin = 0; begin < count(); ++begin) {
      const int most = limits_.some ? std::max({2, limits_.local, limits_.longest}) : 1;
      for (int end = begin + 1; end <= std::min(begin + most, count()); ++end) add(begin, end);
      without_beaten(edges_[at(begin)]);
    }
    return std::move(edges_);
  }

 private:
  int count() const { return facts_.regions.count(); }

  // Stretches of equal structure share their ways.
  void add(int begin, int end) {
    const Outline outline(facts_, begin, end, local_);
    const std::shared_ptr<const std::vector<Way>> ways = ways_known(outline, begin, end);
    for (const Way& way : *ways) {
      Edge edge{.end = end, .seconds = way.seconds, .saved = way.saved, .replays = {}};
      for (int position = 0; position < outline.size(); ++position) {
        const int op = outline.op(position);
        if (op != kNone) edge.peak = std::max(edge.peak, live_[at(op)] + way.rise[at(position)]);
      }
      for (const auto& [op, before] : way.replays) edge.replays.push_back({outline.op(op), outline.op(before)});
      edges_[at(begin)].push_back(std::move(edge));
    }
  }

  std::shared_ptr<const std::vector<Way>> ways_known(const Outline& outline, int begin, int end) {
    const bool last = end == count();  // a stretch that ends at the loss would run again at once
    const std::string key = outline.signature() + limits_.text() + (last ? "last" : "");
    {
      const std::lock_guard lock(known_->mutex);
      if (const auto found = known_->of.find(key); found != known_->of.end()) return found->second;
    }
    auto ways = std::make_shared<const std::vector<Way>>(ways_of(Stretch(outline), end - begin, last, begin));
    const std::lock_guard lock(known_->mutex);
    return known_->of.try_emplace(key, std::move(ways)).first->second;
  }

  std::vector<Way> ways_of(const Stretch& stretch, int length, bool last, int begin) const {
    Stretch::Outcome kept;
    stretch.evaluate({}, kept);
    std::vector<Way> ways;
    const auto add_way = [&](std::vector<Replay> replays) {
      Stretch::Outcome outcome;
      if (!brings_what_it_needs(stretch, replays) || !stretch.evaluate(replays, outcome)) return;
      for (std::size_t i = 0; i < kept.live.size(); ++i) outcome.live[i] -= kept.live[i];
      const std::int64_t saved = outcome.live[at(stretch.turn())];
      ways.push_back({std::move(replays), std::move(outcome.live), saved, outcome.seconds});
    };
    if (!limits_.some) {
      add_way({});
      return ways;
    }
    if (length <= 2) {
      const std::vector<std::vector<int>> sets = sets_of(stretch);
      for (std::size_t i = limits_.keeps ? 0 : sets.size() - 1; i < sets.size(); ++i) {
        // Single regions also have the way that keeps everything.
        if (!sets[i].empty() || length == 1) add_way(replays_of(stretch, sets[i]));
      }
    }
    if (length <= limits_.local && limits_.keeps && suits_local(stretch)) {
      for (const std::vector<Replay>& replays : local_schedules(stretch)) add_way(replays);
    }
    if (length >= 2 && length <= limits_.longest && !last) add_way(segment_of(stretch, begin + length));
    if (length == 1 && ways.empty()) add_way({});  // no op of it may run again
    return ways;
  }

  std::vector<Replay> replays_of(const Stretch& stretch, const std::vector<int>& set) const {
    Placement placement(stretch);
    for (const int position : all_alike(stretch, set)) placement.drop(position);
    for (int position = stretch.turn(); position < stretch.size(); ++position) placement.bring_for(position);
    return placement.replays();
  }

  // The given ops, and the ops that repeat them for other micro-batches.
  static std::vector<int> all_alike(const Stretch& stretch, const std::vector<int>& again) {
    std::vector<int> all;
    for (int position = 0; position < stretch.turn(); ++position) {
      const int like = stretch.what(position).like;
      const bool chosen = std::any_of(again.begin(), again.end(),
                                      [&](int each) { return each == position || (like >= 0 && stretch.op(each) == like); });
      if (chosen) all.push_back(position);
    }
    return all;
  }

  // False with ops that repeat others for another micro-batch: both would need one decision.
  static bool suits_local(const Stretch& stretch) {
    constexpr int kMostOps = 160;
    return stretch.size() <= kMostOps && std::ranges::all_of(stretch.problem().ops, [](const auto& op) { return op.like < 0; });
  }

  // Schedules of single ops under limits on the peak and on the bytes between the passes. Items of other ops weigh nothing; bytes
  // outside the stretch count as scratch.
  std::vector<std::vector<Replay>> local_schedules(const Stretch& stretch) const {
    constexpr int kLevels = 4;
    Problem problem = stretch.problem();
    problem.away.clear();
    problem.narrow = false;
    for (int position = 0; position < stretch.size(); ++position) {
      if (stretch.op(position) == kNone) problem.ops[at(position)] = {};
      problem.ops[at(position)].overwrites.clear();  // of items of other ops
      problem.ops[at(position)].replayable = stretch.may_run_again(position);
    }
    std::vector<std::int64_t> live;
    if (!replays::evaluate(problem, {}, &live)) return {};
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), peak = 0;
    for (int i = 0; i < stretch.size(); ++i) {
      if (stretch.op(i) != kNone) least = std::min(least, live_[at(stretch.op(i))] - live[at(i)]);
    }
    for (int i = 0; i < stretch.size(); ++i) {
      if (stretch.op(i) == kNone) continue;
      problem.ops[at(i)].scratch += live_[at(stretch.op(i))] - live[at(i)] - least;
      peak = std::max(peak, live_[at(stretch.op(i))] - least);
    }
    const std::int64_t held = live[at(stretch.turn())];
    std::vector<std::vector<Replay>> all;
    const std::int64_t lowest = replays::largest_working_set(problem);
    for (int level = 0; level <= kLevels; ++level) {
      const std::int64_t bytes = lowest + (peak - lowest) * level / kLevels;
      for (int part = 0; part <= kLevels; ++part) {
        const std::int64_t most = held * part / kLevels;
        problem.ops[at(stretch.turn())].scratch = std::max<std::int64_t>(0, bytes - most);
        const replays::Evictor evictor(problem);
        const std::vector<double> keys(problem.items.size(), 1.0);
        for (const replays::Weights& weights :
             {replays::Weights{1, 1, 1}, {0, 1, 1}, {1, 0, 1}, {0, 0, 1}, {1, 1, 0}, {2, 1, 1}}) {
          std::optional<replays::Schedule> found = evictor.schedule(bytes, weights, keys);
          if (found && std::find(all.begin(), all.end(), found->replays) == all.end()) all.push_back(std::move(found->replays));
        }
      }
    }
    return all;
  }

  // Keeps only the input of the first region. Before the last region's backward pass all regions run once more for the values at
  // their borders. Each region then runs again for its own backward pass.
  std::vector<Replay> segment_of(const Stretch& stretch, int end) const {
    Placement placement(stretch);
    std::vector<char> dropped(at(stretch.size()), 0);
    for (int position = 0; position < stretch.turn(); ++position) {
      dropped[at(position)] = stretch.may_run_again(position) ? 1 : 0;
      if (dropped[at(position)]) placement.drop(position);
    }
    std::vector<char> crosses(at(stretch.size()), 0);  // another region reads a result of the op
    for (int position = 0; position < stretch.size(); ++position) {
      for (const int item : stretch.what(position).reads) {
        const int maker = stretch.maker(item);
        if (maker >= 0 && stretch.region(maker) != stretch.region(position)) crosses[at(maker)] = 1;
      }
    }
    int now = end;
    for (int position = stretch.turn(); position < stretch.size(); ++position) {
      if (stretch.op(position) == kNone) continue;
      const bool enters = stretch.region(position) < now;
      now = std::min(now, stretch.region(position));
      if (enters) {
        // Results of this region's earlier run are gone, except those that later regions read.
        for (int each = 0; each < stretch.turn() && now + 1 < end; ++each) {
          if (dropped[at(each)] && stretch.region(each) == now && !crosses[at(each)]) placement.drop(each);
        }
      }
      placement.bring_for(position);
    }
    return placement.replays();
  }

  // A unit fetches all that it needs during the pass before. No op that uses such a value may run again elsewhere, or need values
  // that the unit's backward pass does not fetch.
  bool brings_what_it_needs(const Stretch& stretch, const std::vector<Replay>& replays) const {
    const auto comes_back = [&](const replays::Paged& paged) {
      for (int position = stretch.turn(); position < stretch.size(); ++position) {
        const std::vector<replays::Paged>& brought = stretch.what(position).paged;
        if (std::ranges::find(brought, paged.value, &replays::Paged::value) != brought.end()) return true;
      }
      return false;
    };
    return std::ranges::none_of(replays, [&](const Replay& replay) {
      const replays::Op& op = stretch.what(replay.op);
      const bool elsewhere = op.unit != stretch.what(replay.before).unit;
      if (elsewhere && std::ranges::any_of(op.reads, [&](int item) { return stretch.away(item); })) return true;
      if (facts_.problem.narrow) return false;
      return elsewhere ? !op.paged.empty() : !std::ranges::all_of(op.paged, comes_back);
    });
  }

  static void without_beaten(std::vector<Edge>& edges) {
    const auto beats = [](const Edge& a, const Edge& b) {
      return a.end == b.end && a.peak <= b.peak && a.saved <= b.saved && a.seconds <= b.seconds;
    };
    std::vector<Edge> kept;
    for (Edge& edge : edges) {
      if (std::any_of(kept.begin(), kept.end(), [&](const Edge& other) { return beats(other, edge); })) continue;
      std::erase_if(kept, [&](const Edge& other) { return beats(edge, other); });
      kept.push_back(std::move(edge));
    }
    edges = std::move(kept);
  }

  ProblemFacts facts_;
  const std::vector<std::int64_t>& live_;
  EdgeLimits limits_;
  KnownWays* known_;
  std::vector<std::vector<Edge>> edges_;
  std::vector<int> local_;
};

}  // namespace

std::string EdgeLimits::text() const {
  return {static_cast<char>(keeps), static_cast<char>(some), static_cast<char>(longest), static_cast<char>(local)};
}

// Local schedules depend on the bytes next to the stretch, so other problems cannot reuse them.
std::vector<std::vector<Edge>> find_edges(const Problem& problem, const Regions& regions, const std::vector<std::int64_t>& live,
                                          const EdgeLimits& limits, KnownWays* known) {
  KnownWays own;
  return EdgeFinder(problem, regions, live, limits, limits.local > 0 || known == nullptr ? &own : known).run();
}

}  // namespace plimsoll::regions
