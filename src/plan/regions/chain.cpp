#include "plan/regions/chain.h"

#include <algorithm>
#include <cmath>

namespace plimsoll::regions {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Label {
  std::int64_t bytes;
  double seconds;
  const Edge* edge;  // null behind the last region
  int next;          // the label of the suffix behind the edge, or the end
};

// By growing bytes, each faster than all smaller ones.
using Front = std::vector<Label>;

Front undominated(std::vector<Label> labels) {
  std::sort(labels.begin(), labels.end(),
            [](const Label& a, const Label& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.seconds < b.seconds; });
  Front front;
  for (const Label& label : labels) {
    if (front.empty() || label.seconds < front.back().seconds) front.push_back(label);
  }
  return front;
}

// Merges a suffix, with the edge before it, into what is there.
Front merge(const Front& front, const Edge& edge, const Front& suffix, Front& room) {
  room.clear();
  std::size_t next = 0;
  double least = std::numeric_limits<double>::infinity();
  const auto take = [&](const Label& label) {
    if (label.seconds >= least) return;
    least = label.seconds;
    if (!room.empty() && room.back().bytes == label.bytes) {
      room.back() = label;
    } else {
      room.push_back(label);
    }
  };
  for (int i = 0; i < static_cast<int>(suffix.size()); ++i) {
    const Label& behind = suffix[at(i)];
    const Label label{std::max(edge.peak, edge.saved + behind.bytes), edge.seconds + behind.seconds, &edge, i};
    while (next < front.size() && front[next].bytes <= label.bytes) take(front[next++]);
    take(label);
  }
  while (next < front.size()) take(front[next++]);
  return room;
}

// Of equal parts along log bytes plus seconds the smallest and the fastest label each.
void thin(Front& front, std::size_t most) {
  if (front.size() <= most) return;
  const auto share = [](double part, double whole) { return whole > 0 ? part / whole : 0; };
  const double low = std::log(static_cast<double>(std::max<std::int64_t>(front.front().bytes, 1)));
  const double high = std::log(static_cast<double>(std::max<std::int64_t>(front.back().bytes, 1)));
  const double slow = front.front().seconds, fast = front.back().seconds;
  const std::size_t parts = most / 2;
  const auto part = [&](const Label& label) {
    const double bytes = std::log(static_cast<double>(std::max<std::int64_t>(label.bytes, 1)));
    const double place = (share(bytes - low, high - low) + share(slow - label.seconds, slow - fast)) / 2;
    return std::min(parts - 1, static_cast<std::size_t>(place * static_cast<double>(parts)));
  };
  Front kept;
  for (std::size_t i = 0; i < front.size(); ++i) {
    const std::size_t own = part(front[i]);
    const bool first = i == 0 || part(front[i - 1]) != own, last = i + 1 == front.size() || part(front[i + 1]) != own;
    if (first || last) kept.push_back(front[i]);
  }
  front = std::move(kept);
}

}  // namespace

std::vector<ChainPlan> solve_chain(const std::vector<std::vector<Edge>>& edges, const std::vector<End>& ends,
                                   std::int64_t outside, std::size_t most, std::int64_t* labels) {
  const int count = static_cast<int>(edges.size());
  std::vector<Front> fronts(at(count) + 1);
  for (int i = 0; i < static_cast<int>(ends.size()); ++i)
    fronts.back().push_back({ends[at(i)].bytes, ends[at(i)].seconds, nullptr, i});
  fronts.back() = undominated(std::move(fronts.back()));
  Front room;
  for (int region = count; region-- > 0;) {
    Front& front = fronts[at(region)];
    for (const Edge& edge : edges[at(region)]) {
      front = merge(front, edge, fronts[at(edge.end)], room);
      if (labels != nullptr) *labels += static_cast<std::int64_t>(fronts[at(edge.end)].size());
    }
    thin(front, most);
  }
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
