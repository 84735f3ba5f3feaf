#include "plan/replays/exchange.h"

#include <algorithm>
#include <limits>
#include <span>

namespace plimsoll::replays {
namespace {

constexpr std::int64_t kEndless = std::int64_t{1} << 60;

// The largest flow from node 0 to node 1, along shortest paths first (Dinic).
class Network {
 public:
  explicit Network(int nodes) : edges_of_(at(nodes)) {}

  void connect(int from, int to, std::int64_t room) {
    for (const Edge& edge : {Edge{to, room}, Edge{from, 0}}) {
      edges_of_[at(edge.to == to ? from : to)].push_back(static_cast<int>(edges_.size()));
      edges_.push_back(edge);
    }
  }

  void fill() {
    while (find_distances()) {
      next_.assign(edges_of_.size(), 0);
      while (push(0, kEndless) > 0) {
      }
    }
  }

  // True if the node lies on the source's side of the cut.
  bool reached(int node) const { return distance_[at(node)] != kNone; }

 private:
  struct Edge {
    int to;
    std::int64_t room;
  };

  bool find_distances() {
    distance_.assign(edges_of_.size(), kNone);
    distance_[0] = 0;
    std::vector<int> queue{0};
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const int edge : edges_of_[at(queue[i])]) {
        const auto& [to, room] = edges_[at(edge)];
        if (room == 0 || distance_[at(to)] != kNone) continue;
        distance_[at(to)] = distance_[at(queue[i])] + 1;
        queue.push_back(to);
      }
    }
    return reached(1);
  }

  // Pushes up to `most` along one more path; returns the amount.
  std::int64_t push(int node, std::int64_t most) {
    if (node == 1) return most;
    for (std::size_t& next = next_[at(node)]; next < edges_of_[at(node)].size(); ++next) {
      const int edge = edges_of_[at(node)][next];
      const auto [to, room] = edges_[at(edge)];
      if (room == 0 || distance_[at(to)] != distance_[at(node)] + 1) continue;
      const std::int64_t pushed = push(to, std::min(most, room));
      edges_[at(edge)].room -= pushed;
      edges_[at(edge ^ 1)].room += pushed;
      if (pushed > 0) return pushed;
    }
    return 0;
  }

  std::vector<Edge> edges_;  // each edge is followed by its reverse
  std::vector<std::vector<int>> edges_of_;
  std::vector<int> distance_;
  std::vector<std::size_t> next_;  // by node: the first edge that may lead on
};

// `price` is in seconds per byte. The nodes are the source, the sink, needed items and ops that run again.
Choice best_at(const Problem& problem, const Exchange& exchange, double price) {
  constexpr double kTogether = 1e17;  // sum of the edges that may be cut
  const auto items = static_cast<int>(problem.items.size());
  const auto needed = [](int item) { return 2 + item; };
  const auto again = [&](int op) { return 2 + items + op; };
  const std::span ops = std::span(problem.ops).first(at(exchange.turn));
  double all = std::numeric_limits<double>::min();
  for (const Op& op : ops) {
    all += op.seconds;
    for (const int item : op.writes) all += price * static_cast<double>(problem.items[at(item)]);
  }
  const auto room = [&](double seconds) { return static_cast<std::int64_t>(seconds / all * kTogether); };
  Network network(again(exchange.turn));
  for (int op = 0; op < exchange.turn; ++op) {
    for (const int item : ops[at(op)].writes) {
      if (exchange.chosen[at(item)])
        network.connect(needed(item), again(op), room(price * static_cast<double>(problem.items[at(item)])));
    }
    for (const int item : ops[at(op)].reads) {
      if (exchange.chosen[at(item)]) network.connect(again(op), needed(item), kEndless);
    }
    network.connect(again(op), 1, exchange.again[at(op)] ? room(ops[at(op)].seconds) : kEndless);
  }
  for (const Op& op : std::span(problem.ops).subspan(at(exchange.turn))) {
    for (const int item : op.reads) {
      if (exchange.chosen[at(item)]) network.connect(0, needed(item), kEndless);
    }
  }
  network.fill();
  Choice choice;
  for (int op = 0; op < exchange.turn; ++op) {
    if (network.reached(again(op))) {
      choice.again.push_back(op);
      choice.seconds += ops[at(op)].seconds;
      continue;
    }
    for (const int item : ops[at(op)].writes) {
      if (!network.reached(needed(item))) continue;
      choice.stay.push_back(item);
      choice.bytes += problem.items[at(item)];
    }
  }
  return choice;
}

}  // namespace

std::vector<Choice> best_choices(const Problem& problem, const Exchange& exchange, std::size_t most) {
  constexpr double kNoBetter = 1e-9;
  double seconds = 1e-9;  // positive even if no op takes time, so that bytes have a price
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Op& op : problem.ops) seconds += op.seconds;
  for (const std::int64_t bytes : problem.items) least = bytes > 0 ? std::min(least, bytes) : least;
  // At twice the seconds of all ops for the smallest item, every byte is worth more than any op that may run again.
  std::vector<Choice> choices{best_at(problem, exchange, 0),
                              best_at(problem, exchange, 2 * seconds / static_cast<double>(least))};
  if (choices[0].bytes == choices[1].bytes) choices.pop_back();
  const auto area = [&](std::size_t i) {
    return (choices[i + 1].seconds - choices[i].seconds) * static_cast<double>(choices[i].bytes - choices[i + 1].bytes);
  };
  std::vector<double> between(choices.size() - 1);  // upper bound of the gain between a choice and the next one
  if (!between.empty()) between[0] = area(0);
  while (!between.empty() && choices.size() < most) {
    const auto widest = static_cast<std::size_t>(std::max_element(between.begin(), between.end()) - between.begin());
    if (between[widest] <= 0) break;
    const Choice &a = choices[widest], &b = choices[widest + 1];
    const double price = (b.seconds - a.seconds) / static_cast<double>(a.bytes - b.bytes);
    Choice found = best_at(problem, exchange, price);
    between[widest] = 0;
    if (found.bytes >= a.bytes || found.bytes <= b.bytes) continue;
    const double gained = a.seconds - found.seconds + price * static_cast<double>(a.bytes - found.bytes);
    if (gained <= kNoBetter * (b.seconds - a.seconds)) continue;
    choices.insert(choices.begin() + static_cast<std::ptrdiff_t>(widest) + 1, std::move(found));
    between.insert(between.begin() + static_cast<std::ptrdiff_t>(widest) + 1, area(widest + 1));
    between[widest] = area(widest);
  }
  return choices;
}

}  // namespace plimsoll::replays
