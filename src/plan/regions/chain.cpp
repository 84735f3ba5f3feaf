#include "plan/regions/chain.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>

namespace plimsoll::regions {
namespace {

using replays::at;

struct Label {
  std::int64_t bytes;
  double seconds;
  double slack;      // link seconds left of the window of the suffix's first region
  const Edge* edge;  // null behind the last region
  int next;          // the label of the suffix behind the edge, or the end
};

// By growing bytes; none is better than another one in nothing.
using Front = std::vector<Label>;

// Of what was seen so far, which has no more bytes: by growing seconds with growing slack.
class Seen {
 public:
  // Whether nothing has both as few seconds and as much slack; then it is seen.
  bool add(double seconds, double slack) {
    auto place = std::upper_bound(steps_.begin(), steps_.end(), seconds,
                                  [](double value, const Step& step) { return value < step.seconds; });
    if (place != steps_.begin() && std::prev(place)->slack >= slack) return false;
    auto end = place;
    while (end != steps_.end() && end->slack <= slack) ++end;
    place = steps_.erase(place, end);
    steps_.insert(place, {seconds, slack});
    return true;
  }

 private:
  struct Step {
    double seconds, slack;
  };
  std::vector<Step> steps_;
};

bool before(const Label& a, const Label& b) {
  return std::tie(a.bytes, a.seconds, b.slack) < std::tie(b.bytes, b.seconds, a.slack);
}

// Of two lists by growing bytes what is not dominated.
void merge(Front& front, const std::vector<Label>& more, Front& room) {
  room.clear();
  std::merge(front.begin(), front.end(), more.begin(), more.end(), std::back_inserter(room), before);
  front.clear();
  Seen seen;
  for (const Label& label : room) {
    if (seen.add(label.seconds, label.slack)) front.push_back(label);
  }
}

// Of equal parts along log bytes plus seconds the smallest label, the fastest one, and the one with most slack.
void thin(Front& front, std::size_t most) {
  if (front.size() <= most) return;
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
  const auto bytes_of = [](const Label& label) { return std::log(static_cast<double>(std::max<std::int64_t>(label.bytes, 1))); };
  const double low = bytes_of(front.front()), high = bytes_of(front.back());
  const auto [fastest, slowest] = std::ranges::minmax_element(front, {}, &Label::seconds);
  const double fast = fastest->seconds, slow = slowest->seconds;
  const std::size_t parts = std::max<std::size_t>(most / 2, 1);
  const auto part = [&](const Label& label) {
    const double place = (share(bytes_of(label) - low, high - low) + share(slow - label.seconds, slow - fast)) / 2;
    return std::min(parts - 1, static_cast<std::size_t>(place * static_cast<double>(parts)));
  };
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Kept {
    std::size_t smallest = kNone, fastest = kNone, slackest = kNone;
  };
  std::vector<Kept> kept(parts);
  for (std::size_t i = 0; i < front.size(); ++i) {
    Kept& own = kept[part(front[i])];
    if (own.smallest == kNone) own = {i, i, i};
    if (front[i].seconds < front[own.fastest].seconds) own.fastest = i;
    if (front[i].slack > front[own.slackest].slack) own.slackest = i;
  }
  std::vector<char> stays(front.size(), 0);
  for (const Kept& own : kept) {
    for (const std::size_t i : {own.smallest, own.fastest, own.slackest}) {
      if (i != kNone) stays[i] = 1;
    }
  }
  Front rest;
  for (std::size_t i = 0; i < front.size(); ++i) {
    if (stays[i] != 0) rest.push_back(front[i]);
  }
  front = std::move(rest);
}

class Program {
 public:
  Program(const std::vector<std::vector<Edge>>& edges, const Windows& windows, std::size_t most)
      : edges_(edges), windows_(windows), most_(most), fronts_(edges.size() + 1) {}

  const std::vector<Front>& run(const std::vector<End>& ends, std::int64_t* labels) {
    const int count = static_cast<int>(edges_.size());
    for (int i = 0; i < static_cast<int>(ends.size()); ++i)
      fronts_.back().push_back({ends[at(i)].bytes, ends[at(i)].seconds, 0, nullptr, i});
    std::sort(fronts_.back().begin(), fronts_.back().end(), before);
    std::vector<Label> some, room;
    merge(fronts_.back(), some, room);
    for (int region = count; region-- > 0;) {
      for (const Edge& edge : edges_[at(region)]) {
        extend(edge, some);
        if (labels != nullptr) *labels += static_cast<std::int64_t>(some.size());
        merge(fronts_[at(region)], some, room);
      }
      thin(fronts_[at(region)], most_);
    }
    return fronts_;
  }

 private:
  int unit(int region) const { return region < 0 || at(region) >= windows_.unit.size() ? -1 : windows_.unit[at(region)]; }
  double slack(int unit) const { return unit < 0 || at(unit) >= windows_.slack.size() ? 0 : windows_.slack[at(unit)]; }

  // What runs again in a unit's window costs only what the links do not take anyway.
  void extend(const Edge& edge, std::vector<Label>& list) const {
    list.clear();
    const Front& suffix = fronts_[at(edge.end)];
    const int own = unit(edge.begin), behind = unit(edge.end);
    const bool open = own >= 0 && own == unit(edge.begin - 1);  // the window goes on
    for (int i = 0; i < static_cast<int>(suffix.size()); ++i) {
      const Label& label = suffix[at(i)];
      double seconds = label.seconds + edge.seconds, left = own == behind ? label.slack : slack(own);
      for (const UnitSeconds& window : edge.windows) {
        double other = window.unit == behind ? label.slack : slack(window.unit);
        double& hides = window.unit == own ? left : other;
        const double hidden = std::min(hides, window.seconds);
        hides -= hidden;
        seconds -= hidden;
      }
      const Label longer{std::max(edge.peak, edge.saved + label.bytes), seconds, open ? left : 0, &edge, i};
      // Of equal bytes the later ones are faster.
      while (!list.empty() && list.back().bytes == longer.bytes && list.back().seconds >= longer.seconds &&
             list.back().slack <= longer.slack)
        list.pop_back();
      list.push_back(longer);
    }
    std::sort(list.begin(), list.end(), before);
  }

  const std::vector<std::vector<Edge>>& edges_;
  const Windows& windows_;
  std::size_t most_;
  std::vector<Front> fronts_;
};

}  // namespace

std::vector<replays::Replay> replays_of(const std::vector<const Edge*>& path) {
  std::vector<replays::Replay> all;
  for (const Edge* edge : path) all.insert(all.end(), edge->replays.begin(), edge->replays.end());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.before < b.before; });
  return all;
}

std::vector<ChainPlan> solve_chain(const std::vector<std::vector<Edge>>& edges, const std::vector<End>& ends,
                                   std::int64_t outside, std::size_t most, const Windows& windows, std::int64_t* labels) {
  Program program(edges, windows, most);
  const std::vector<Front>& fronts = program.run(ends, labels);
  std::vector<ChainPlan> plans;
  for (auto label = fronts.front().rbegin(); label != fronts.front().rend(); ++label) {
    ChainPlan plan{std::max(outside, label->bytes), label->seconds, 0, {}};
    if (!plans.empty() && plans.back().bytes == plan.bytes) continue;  // the faster one is there
    const Label* now = &*label;
    for (; now->edge != nullptr; now = &fronts[at(now->edge->end)][at(now->next)]) plan.edges.push_back(now->edge);
    plan.end = now->next;
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace plimsoll::regions
