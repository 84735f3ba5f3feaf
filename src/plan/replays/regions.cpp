#include "plan/replays/regions.h"

#include <algorithm>
#include <utility>

namespace plimsoll::regions {
namespace {

using replays::at;
using replays::Op;
using replays::Pass;
using replays::Problem;

constexpr std::int64_t kSmall = 4096;  // bytes of values that do not prevent a cut
constexpr int kLong = 24;              // forward ops above which a region is cut further
constexpr int kNone = -1;

class Cutter {
 public:
  // `everywhere`: as in find_cuts.
  explicit Cutter(const Problem& problem, bool everywhere = false)
      : problem_(problem),
        everywhere_(everywhere),
        made_(problem.items.size(), kNone),
        last_(problem.items.size(), kNone),
        held_(problem.items.size(), 0),
        carried_(problem.items.size(), 0),
        first_(problem.items.size()),
        alike_(problem.items.size(), {0, 0}) {
    int first_backward = static_cast<int>(problem.ops.size());
    for (int i = 0; i < static_cast<int>(problem.ops.size()); ++i) {
      const Op& op = problem.ops[at(i)];
      if (op.pass == Pass::backward) first_backward = std::min(first_backward, i);
      if (op.pass == Pass::forward && i < first_backward) forward_.push_back(i);
    }
    for (int place = 0; place < static_cast<int>(forward_.size()); ++place) {
      const Op& op = problem.ops[at(forward_[at(place)])];
      for (const int item : op.reads) last_[at(item)] = place;
      for (const int item : op.writes) made_[at(item)] = place;
    }
    for (const Op& op : problem.ops) {
      if (op.pass != Pass::backward) continue;
      for (const int item : op.reads) held_[at(item)] = 1;
    }
    for (std::size_t item = 0; item < problem.away.size(); ++item) held_[item] |= problem.away[item];
    find_alike();
  }

  Regions run() {
    Regions regions;
    regions.of.assign(problem_.ops.size(), kOutside);
    regions.turn = forward_.empty() ? 0 : forward_.back() + 1;
    const std::vector<int> ends = cuts();
    int begin = 0, number = 0;
    for (const int end : ends) {
      for (; begin < end; ++begin) regions.of[at(forward_[at(begin)])] = number;
      ++number;
    }
    place_others(regions);
    merge_mixed(regions, number);
    return regions;
  }

  // The ends of the regions, as places in the forward order.
  std::vector<int> cuts() {
    const int longest = everywhere_ ? std::max(kLong, static_cast<int>(forward_.size()) / 4) : kLong;
    for (;;) {
      std::vector<int> ends = simple_cuts();
      bool more = false;
      int begin = 0;
      for (const int end : ends) {
        if (end - begin > longest) more = carry(begin, end) || more;
        begin = end;
      }
      if (!more) return ends;
    }
  }

 private:
  // Values of ops that repeat each other for several micro-batches count as one value.
  void find_alike() {
    for (int item = 0; item < static_cast<int>(first_.size()); ++item) first_[at(item)] = item;
    for (const Op& op : problem_.ops) {
      if (op.like < 0 || op.pass != Pass::forward) continue;
      for (std::size_t i = 0; i < op.writes.size(); ++i) first_[at(op.writes[i])] = problem_.ops[at(op.like)].writes[i];
    }
    for (int item = 0; item < static_cast<int>(first_.size()); ++item) alike_[at(first_[at(item)])] += {1, item};
  }

  // A number of values, and the sum of their ids to compare sets of equal size.
  struct Crossing {
    int count = 0;
    std::int64_t sum = 0;
    void operator+=(const Crossing& other) { count += other.count, sum += other.sum; }
    friend bool operator==(const Crossing&, const Crossing&) = default;
  };

  int unit(int place) const { return problem_.ops[at(forward_[at(place)])].unit; }

  bool counts(int item) const {
    return made_[at(item)] != kNone && !carried_[at(item)] && (everywhere_ || problem_.items[at(item)] > kSmall);
  }

  std::vector<int> simple_cuts() const {
    const auto count = static_cast<int>(forward_.size());
    // By place: the change in the values that cross it; for all values, and for the first of each set of equals.
    std::vector<Crossing> all(at(count) + 1), first(at(count) + 1);
    for (int item = 0; item < static_cast<int>(problem_.items.size()); ++item) {
      const int made = made_[at(item)], last = last_[at(item)];
      if (!counts(item) || last <= made) continue;
      add(all, made, last, item);
      if (first_[at(item)] == item) add(first, made, last, item);
    }
    std::vector<int> ends;
    int begin = 0;
    Crossing live, live_first;
    for (int place = 0; place < count; ++place) {
      live += all[at(place)];
      live_first += first[at(place)];
      const auto single = static_cast<std::size_t>(live_first.sum);
      const bool inside = problem_.narrow && place + 1 < count && unit(place) >= 0 && unit(place) == unit(place + 1);
      const bool one = everywhere_ ? live.count <= 1 : live_first.count == 1 && held_[single] && live == alike_[single];
      const bool cut = place + 1 == count || one;
      const bool alone = !everywhere_ && place == begin && place + 1 < count;  // regions of one op join the next one
      if (!cut || alone || inside) continue;
      ends.push_back(begin = place + 1);
    }
    return ends;
  }

  static void add(std::vector<Crossing>& changes, int made, int last, int item) {
    changes[at(made)] += {1, item};
    changes[at(last)] += {-1, -item};
  }

  // Carries the longest-lived values across a stretch until a cut divides it. Returns true if one does.
  bool carry(int begin, int end) {
    constexpr int kMostCarried = 8;
    const std::vector<char> before = carried_;
    for (int number = 0; number < kMostCarried; ++number) {
      int best = kNone, longest = (end - begin) / 4;
      for (int item = 0; item < static_cast<int>(problem_.items.size()); ++item) {
        if (!counts(item) || first_[at(item)] != item) continue;
        const int lives = std::min(last_[at(item)], end) - std::max(made_[at(item)], begin);
        if (lives > longest) best = item, longest = lives;
      }
      if (best == kNone) break;
      for (int item = 0; item < static_cast<int>(first_.size()); ++item) carried_[at(item)] |= first_[at(item)] == best ? 1 : 0;
      const std::vector<int> ends = simple_cuts();
      if (std::any_of(ends.begin(), ends.end(), [&](int each) { return begin < each && each < end; })) return true;
    }
    carried_ = before;
    return false;
  }

  // Backward ops belong to the region of the op whose gradient they compute, all others to that of the op before them.
  void place_others(Regions& regions) const {
    const auto region_of_gradient = [&](const Op& op) { return op.of >= 0 ? regions.of[at(op.of)] : kOutside; };
    int last_backward = kNone;
    for (int i = 0; i < static_cast<int>(problem_.ops.size()); ++i) {
      if (problem_.ops[at(i)].pass == Pass::backward && region_of_gradient(problem_.ops[at(i)]) >= 0) last_backward = i;
    }
    int now = kOutside;
    for (int i = 0; i < static_cast<int>(problem_.ops.size()); ++i) {
      const Op& op = problem_.ops[at(i)];
      if (i == regions.turn) now = kBetween;
      if (i > last_backward && i >= regions.turn) now = kOutside;
      if (regions.of[at(i)] >= 0) {
        now = regions.of[at(i)];
        continue;
      }
      if (op.pass == Pass::backward && region_of_gradient(op) >= 0) now = region_of_gradient(op);
      regions.of[at(i)] = now;
    }
  }

  // Backward passes run one after the other in reverse order. Regions that break this order become one region.
  void merge_mixed(Regions& regions, int count) const {
    std::vector<char> joins_next(at(std::max(count, 1)), 0);
    int lowest = count;
    for (int i = regions.turn; i < static_cast<int>(problem_.ops.size()); ++i) {
      const int region = regions.of[at(i)];
      if (region < 0) continue;
      for (int each = lowest; each < region; ++each) joins_next[at(each)] = 1;
      lowest = std::min(lowest, region);
    }
    std::vector<int> number(at(std::max(count, 1)), 0);
    for (int i = 1; i < count; ++i) number[at(i)] = number[at(i - 1)] + (joins_next[at(i - 1)] ? 0 : 1);
    regions.ops.resize(count == 0 ? 0 : at(number[at(count - 1)]) + 1);
    for (int i = 0; i < static_cast<int>(problem_.ops.size()); ++i) {
      int& region = regions.of[at(i)];
      if (region < 0) continue;
      region = number[at(region)];
      regions.ops[at(region)].push_back(i);
    }
  }

  const Problem& problem_;
  bool everywhere_;
  std::vector<int> forward_;      // ops
  std::vector<int> made_, last_;  // by item: forward places of its maker and of its last reader
  std::vector<char> held_;        // by item: a backward op reads it, or it is fetched for one
  std::vector<char> carried_;     // by item
  std::vector<int> first_;        // by item: the first of its equals
  std::vector<Crossing> alike_;   // by first item: the set of its equals
};

}  // namespace

Regions find_regions(const Problem& problem) { return Cutter(problem).run(); }

std::vector<int> find_cuts(const Problem& problem) { return Cutter(problem, /*everywhere=*/true).cuts(); }

}  // namespace plimsoll::regions
