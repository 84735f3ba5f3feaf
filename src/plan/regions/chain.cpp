#include "plan/regions/chain.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <ranges>
#include <span>
#include <tuple>

namespace plimsoll::regions {
namespace {

using replays::at;

struct Label {
  std::int64_t bytes;
  double seconds;
  const Edge* edge;  // null after the last region
  int next;          // the label of the suffix after the edge, or the end
};

// Labels by rising bytes and falling seconds.
using Front = std::vector<Label>;

bool before(const Label& a, const Label& b) { return std::tie(a.bytes, a.seconds) < std::tie(b.bytes, b.seconds); }

// Merges two lists by rising bytes; dominated labels are dropped.
void merge(Front& front, const std::vector<Label>& more, Front& room) {
  room.clear();
  const auto take = [&](const Label& label) {
    if (room.empty() || label.seconds < room.back().seconds) room.push_back(label);
  };
  auto a = front.begin();
  auto b = more.begin();
  while (a != front.end() && b != more.end()) take(before(*b, *a) ? *b++ : *a++);
  std::for_each(a, front.end(), take);
  std::for_each(b, more.end(), take);
  front.swap(room);
}

// Cuts the front into equal parts along log bytes plus seconds, and keeps the smallest and the fastest label of each.
void thin(Front& front, std::size_t most) {
  if (front.size() <= most) return;
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
  const auto bytes_of = [](const Label& label) { return std::log(static_cast<double>(std::max<std::int64_t>(label.bytes, 1))); };
  const double low = bytes_of(front.front()), high = bytes_of(front.back());
  const double fast = front.back().seconds, slow = front.front().seconds;
  const std::size_t parts = std::max<std::size_t>(most / 2, 1);
  const auto part = [&](const Label& label) {
    const double place = (share(bytes_of(label) - low, high - low) + share(slow - label.seconds, slow - fast)) / 2;
    return std::min(parts - 1, static_cast<std::size_t>(place * static_cast<double>(parts)));
  };
  Front kept;
  for (std::size_t begin = 0; begin < front.size();) {
    std::size_t end = begin + 1;
    while (end < front.size() && part(front[end]) == part(front[begin])) ++end;
    kept.push_back(front[begin]);
    if (end - begin > 1) kept.push_back(front[end - 1]);
    begin = end;
  }
  front = std::move(kept);
}

class Program {
 public:
  Program(const std::vector<std::vector<Edge>>& edges, std::size_t most)
      : edges_(edges), most_(most), fronts_(edges.size() + 1) {}

  const std::vector<Front>& run(const std::vector<End>& ends, std::int64_t* labels) {
    const int count = static_cast<int>(edges_.size());
    for (int i = 0; i < static_cast<int>(ends.size()); ++i)
      fronts_.back().push_back({ends[at(i)].bytes, ends[at(i)].seconds, nullptr, i});
    std::sort(fronts_.back().begin(), fronts_.back().end(), before);
    merge(fronts_.back(), {}, room_);
    for (int region = count; region-- > 0;) {
      fronts_[at(region)] = front_of(edges_[at(region)], labels);
      thin(fronts_[at(region)], most_);
    }
    return fronts_;
  }

 private:
  // Merges by halves: a merge for each edge would pass through the whole front every time.
  Front front_of(std::span<const Edge> edges, std::int64_t* labels) {
    if (edges.empty()) return {};
    if (edges.size() == 1) {
      Front front = extended(edges.front());
      if (labels != nullptr) *labels += static_cast<std::int64_t>(front.size());
      merge(front, {}, room_);
      return front;
    }
    const std::size_t half = edges.size() / 2;
    Front front = front_of(edges.first(half), labels);
    merge(front, front_of(edges.subspan(half), labels), room_);
    return front;
  }

  // Labels by rising bytes, like those of the suffix.
  Front extended(const Edge& edge) const {
    Front list;
    const Front& suffix = fronts_[at(edge.end)];
    list.reserve(suffix.size());
    for (int i = 0; i < static_cast<int>(suffix.size()); ++i) {
      const Label& label = suffix[at(i)];
      const Label longer{std::max(edge.peak, edge.saved + label.bytes), label.seconds + edge.seconds, &edge, i};
      // At equal bytes the later label is faster.
      if (!list.empty() && list.back().bytes == longer.bytes) list.pop_back();
      list.push_back(longer);
    }
    return list;
  }

  const std::vector<std::vector<Edge>>& edges_;
  std::size_t most_;
  std::vector<Front> fronts_;
  Front room_;
};

}  // namespace

std::vector<replays::Replay> replays_of(const std::vector<const Edge*>& path) {
  std::vector<replays::Replay> all;  // the last edges of the chain come first in the backward pass
  for (const Edge* edge : std::views::reverse(path)) all.insert(all.end(), edge->replays.begin(), edge->replays.end());
  if (!std::ranges::is_sorted(all, {}, &replays::Replay::before)) std::ranges::stable_sort(all, {}, &replays::Replay::before);
  return all;
}

std::vector<ChainPlan> solve_chain(const std::vector<std::vector<Edge>>& edges, const std::vector<End>& ends,
                                   std::int64_t outside, std::size_t most, std::int64_t* labels) {
  Program program(edges, most);
  const std::vector<Front>& fronts = program.run(ends, labels);
  std::vector<ChainPlan> plans;
  for (auto label = fronts.front().rbegin(); label != fronts.front().rend(); ++label) {
    ChainPlan plan{std::max(outside, label->bytes), label->seconds, 0, {}};
    if (!plans.empty() && plans.back().bytes == plan.bytes) continue;  // the faster plan is already there
    const Label* now = &*label;
    for (; now->edge != nullptr; now = &fronts[at(now->edge->end)][at(now->next)]) plan.edges.push_back(now->edge);
    plan.end = now->next;
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace plimsoll::regions
