#include "plan/replays/eviction.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace plimsoll::replays {
namespace {

constexpr std::size_t kMostEntries = 4;  // queue entries per item, before outdated ones are removed
constexpr int kNever = std::numeric_limits<int>::max();

}  // namespace

Evictor::Evictor(const Problem& problem)
    : problem_(problem),
      maker_(problem.items.size(), kNone),
      uses_(problem.items.size()),
      end_(problem.ops.size()),
      expire_(problem.ops.size()) {
  for (int op = 0; op < static_cast<int>(problem.ops.size()); ++op) {
    begins_.push_back(seconds_);
    seconds_ += problem.ops[at(op)].seconds;
    for (const int item : problem.ops[at(op)].writes) maker_[at(item)] = op;
    for (const int item : problem.ops[at(op)].reads) uses_[at(item)].push_back(op);
  }
  last_.assign(problem.items.size(), kNone);
  for (int op = static_cast<int>(problem.ops.size()); op-- > 0;) {
    int last = op;
    for (const int item : problem.ops[at(op)].writes)
      last = std::max(last, problem.ops[at(op)].replayable ? std::min(last_[at(item)], problem.ops[at(op)].until) : op);
    for (const int item : problem.ops[at(op)].reads) last_[at(item)] = std::max(last_[at(item)], last);
  }
  for (std::size_t item = 0; item < problem.items.size(); ++item) {
    if (maker_[item] == kNone) continue;
    if (last_[item] != kNone) end_[at(last_[item])].push_back(static_cast<int>(item));
    const int until = problem.ops[at(maker_[item])].until;
    if (until < static_cast<int>(problem.ops.size()) - 1) expire_[at(until) + 1].push_back(static_cast<int>(item));
  }
}

// One run through the ops. An item is weighed again only after a change. The queue holds each item at the worth of its last
// weighing, which is an upper bound for later moments until a change touches the item.
class Eviction {
 public:
  Eviction(const Evictor& fixed, std::int64_t bytes, const Weights& weights, std::span<const double> keys, const Effort& effort)
      : fixed_(fixed),
        problem_(fixed.problem_),
        bytes_(bytes),
        weights_(weights),
        keys_(keys),
        effort_(effort),
        least_(fixed.seconds_ * 1e-9),
        items_(problem_.items.size()) {
    schedule_.seconds = fixed.seconds_;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      if (!fixed.uses_[i].empty()) items_[i].needed = fixed.uses_[i].front();
    }
  }

  std::optional<Schedule> run() {
    for (now_ = 0; now_ < static_cast<int>(problem_.ops.size()); ++now_) {
      if (!execute(now_)) return {};
    }
    return std::move(schedule_);
  }

  std::int64_t looks() const { return looks_; }

 private:
  struct Item {
    bool live = false;
    bool touched = false;    // weigh it before the next choice
    bool parked = false;     // weigh it when it is unlocked
    bool queued = false;     // the entry of this version is in the queue
    bool known = false;      // `cost` and `deadline` are valid
    bool suspected = false;  // is in `suspects_`
    int locked = 0;
    int needed = kNever;     // next use of it, or of an absent item that would be made from it
    int weighed = kNone;     // op of its last weighing
    unsigned version = 0;    // of its valid entry in the queue
    std::size_t passed = 0;  // number of past uses
    std::size_t place = 0;   // index in `here_`
    double worth = 0;        // at its last weighing
    double cost = 0;         // seconds to make it again from the live items
    int deadline = kNone;    // the last op before which it could be made again from the live items
  };
  struct Entry {
    double worth;
    std::size_t place;
    int item;
    unsigned version;
    // The front has the most worth; ties go to the first item of `here_`.
    bool operator<(const Entry& other) const { return worth != other.worth ? worth < other.worth : place > other.place; }
  };

  const Op& op(int index) const { return problem_.ops[at(index)]; }
  Item& of(int item) { return items_[at(item)]; }
  const Op& maker(int item) const { return op(fixed_.maker_[at(item)]); }
  bool made(int item) const { return fixed_.maker_[at(item)] != kNone; }

  // The next use of an item from op `from` on: its own use, or that of an absent item that would be made from it.
  int needed_from(int item, int from) {
    const std::vector<int>& uses = fixed_.uses_[at(item)];
    looks_ += static_cast<std::int64_t>(uses.size()) + 1;
    std::size_t next = of(item).passed;
    while (next < uses.size() && uses[next] < from) ++next;
    int soonest = next < uses.size() ? uses[next] : kNever;
    for (const int user : uses) {
      if (user >= now_) break;
      if (!op(user).replayable) continue;
      for (const int result : op(user).writes) {
        if (!of(result).live) soonest = std::min(soonest, of(result).needed);
      }
    }
    return soonest;
  }

  void need(int item, int use) {
    of(item).needed = use;
    touch(item);
    if (use == kNever) suspect(item);
  }

  // After an item is dropped, its inputs are needed as early as the item.
  void need_inputs(int item) {
    if (!maker(item).replayable) return;
    const int use = of(item).needed;
    for (const int read : maker(item).reads) {
      ++looks_;
      if (!made(read) || of(read).needed <= use) continue;
      need(read, use);
      if (!of(read).live) need_inputs(read);
    }
  }

  // After an item is back or needed later than `use`, its inputs may be needed later, too.
  void relieve_inputs(int item, int use) {
    if (!maker(item).replayable) return;
    for (const int read : maker(item).reads) {
      ++looks_;
      if (!made(read) || of(read).needed != use) continue;
      const int then = needed_from(read, from_);
      if (then == use) continue;
      need(read, then);
      if (!of(read).live) relieve_inputs(read, use);
    }
  }

  // After an item is dropped or made, the costs of items made from it are no longer valid.
  void forget_costs_behind(int item) {
    for (const int user : fixed_.uses_[at(item)]) {
      if (user >= now_) break;
      for (const int result : op(user).writes) {
        ++looks_;
        if (!of(result).known) continue;
        of(result).known = false;
        if (of(result).live) {
          touch(result);
        } else {
          forget_costs_behind(result);
        }
      }
    }
  }

  // Finds the seconds to make an item again from live items, and the last op before which it is possible.
  void find_cost(int item) {
    if (of(item).known) return;
    ++looks_;
    const Op& how = maker(item);
    double seconds = how.seconds;
    int latest = how.replayable ? how.until : kNone;
    for (const int read : how.reads) {
      if (of(read).live || !made(read)) continue;
      find_cost(read);
      seconds += of(read).cost;
      latest = std::min(latest, of(read).deadline);
    }
    of(item).cost = seconds;
    of(item).deadline = latest;
    of(item).known = true;
  }

  bool can_be_made_again(int item) const { return maker(item).replayable && now_ <= maker(item).until; }

  // True if the item can be made again by the time of its next use.
  bool may_go(int item) {
    if (!can_be_made_again(item)) return effort_.last_resort && of(item).needed == kNever;
    if (!effort_.last_resort || of(item).needed == kNever) return true;
    find_cost(item);
    return of(item).needed <= of(item).deadline;
  }

  // True if nothing needs the item. An item that cannot be made again stays for all items that could be made from it.
  bool dead(int item) const {
    return can_be_made_again(item) ? items_[at(item)].needed == kNever : fixed_.last_[at(item)] < from_;
  }

  void touch(int item) { enlist(item, &Item::touched, touched_); }
  void suspect(int item) { enlist(item, &Item::suspected, suspects_); }
  // Puts a live item on a list once.
  void enlist(int item, bool Item::*listed, std::vector<int>& list) {
    if (!of(item).live || std::exchange(of(item).*listed, true)) return;
    list.push_back(item);
  }

  void put(int item) {
    items_[at(item)].live = true;
    held_ += problem_.items[at(item)];
    of(item).place = here_.size();
    here_.push_back(item);
    touch(item);
    if (dead(item)) suspect(item);
  }

  void drop(int item) {
    const std::size_t place = of(item).place;
    of(item).live = of(item).queued = of(item).parked = false;
    held_ -= problem_.items[at(item)];
    const int moved = here_[place] = here_.back();
    here_.pop_back();
    if (moved != item) {
      of(moved).place = place;
      if (of(moved).queued) queue(moved);
    }
    forget_costs_behind(item);
    need_inputs(item);
  }

  // The dead items, the last of `here_` first. Locked ones stay suspects.
  std::vector<int> take_dead() {
    std::vector<int> gone, locked;
    for (const int item : suspects_) {
      ++looks_;
      of(item).suspected = false;
      if (!of(item).live || !dead(item)) continue;
      (of(item).locked > 0 ? locked : gone).push_back(item);
    }
    suspects_.clear();
    for (const int item : locked) suspect(item);
    sort_by_place(gone);
    return gone;
  }

  void sort_by_place(std::vector<int>& items) {
    std::sort(items.begin(), items.end(), [&](int a, int b) { return of(a).place > of(b).place; });
  }

  bool make_room(std::int64_t wanted) {
    if (held_ + wanted <= bytes_) return true;
    for (const int item : take_dead()) drop(item);
    while (held_ + wanted > bytes_) {
      const int chosen = worthiest();
      if (chosen == kNone || looks_ > effort_.most_looks) return false;
      drop(chosen);
    }
    return true;
  }

  // The item of the most worth that may go, or kNone.
  int worthiest() {
    for (const int item : touched_) {
      of(item).touched = false;
      if (of(item).live) weigh(item);
    }
    touched_.clear();
    while (!queue_.empty()) {
      const Entry first = queue_.front();
      const Item& item = of(first.item);
      const bool valid = counts(first);
      if (valid && item.locked == 0 && (item.weighed == now_ || weights_.distance == 0)) return first.item;
      ++looks_;
      std::pop_heap(queue_.begin(), queue_.end());
      queue_.pop_back();
      if (valid) weigh(first.item);
    }
    return kNone;
  }

  void weigh(int item) {
    ++looks_;
    of(item).queued = false;
    of(item).parked = of(item).locked > 0;
    if (of(item).parked || problem_.items[at(item)] == 0 || !may_go(item)) return;
    of(item).worth = can_be_made_again(item) ? keys_[at(item)] * worth_of(item) : 0;
    of(item).weighed = now_;
    queue(item);
  }

  void queue(int item) {
    of(item).queued = true;
    if (queue_.size() > kMostEntries * items_.size()) tidy_up();
    queue_.push_back({of(item).worth, of(item).place, item, ++of(item).version});
    std::push_heap(queue_.begin(), queue_.end());
  }

  void tidy_up() {
    std::erase_if(queue_, [&](const Entry& entry) { return !counts(entry); });
    std::make_heap(queue_.begin(), queue_.end());
  }

  bool counts(const Entry& entry) const {
    return items_[at(entry.item)].queued && items_[at(entry.item)].version == entry.version;
  }

  static double power(double base, double exponent) {
    return exponent == 0 ? 1 : exponent == 1 ? base : std::pow(base, exponent);
  }

  double worth_of(int item) {
    find_cost(item);
    const int use = of(item).needed;
    const double until = use == kNever ? fixed_.seconds_ : fixed_.begins_[at(use)];
    const double distance = std::max(until - fixed_.begins_[at(now_)], least_);
    const auto bytes = static_cast<double>(problem_.items[at(item)]);
    return power(distance, weights_.distance) * power(bytes, weights_.bytes) /
           power(std::max(of(item).cost, least_), weights_.seconds);
  }

  // The items that an op's results overwrite, since the op is their last reader.
  std::vector<int> taken_over(const Op& what, bool first) {
    std::vector<int> taken;
    if (!first || what.overwrites.empty()) return taken;
    for (const int result : what.writes) {
      for (const auto& [read, written] : what.overwrites) {
        if (written != result || problem_.items[at(read)] != problem_.items[at(result)]) continue;
        if (of(read).locked > 1 || std::find(taken.begin(), taken.end(), read) != taken.end() || !dies_here(read)) continue;
        taken.push_back(read);
        break;
      }
    }
    return taken;
  }

  // True if nothing needs the item after the current op.
  bool dies_here(int item) {
    return can_be_made_again(item) ? needed_from(item, now_ + 1) == kNever : fixed_.last_[at(item)] <= now_;
  }

  std::int64_t bytes_of(const std::vector<int>& items) const {
    std::int64_t bytes = 0;
    for (const int item : items) bytes += problem_.items[at(item)];
    return bytes;
  }

  // Runs an op whose inputs are live. Live results keep their place and are computed again.
  bool perform(int index, bool first) {
    const Op& what = op(index);
    std::int64_t wanted = what.scratch;
    std::vector<int> there;
    for (const int item : what.writes) {
      if (of(item).live) there.push_back(item);
      wanted += of(item).live ? 0 : problem_.items[at(item)];
    }
    for (const int item : there) ++of(item).locked;
    // An item that goes to make room may need an overwritten item again.
    std::vector<int> taken = taken_over(what, first);
    for (bool enough = false; !enough;) {
      if (!make_room(wanted - bytes_of(taken))) return false;
      std::vector<int> still = held_ + wanted > bytes_ ? taken_over(what, first) : std::vector<int>{};
      enough = held_ + wanted - bytes_of(still) <= bytes_;
      taken = std::move(still);
    }
    for (const int item : there) unlock(item);
    if (first) taken_ = std::move(taken);
    for (const int item : what.writes) {
      if (of(item).live) continue;
      put(item);
      if (first) continue;
      forget_costs_behind(item);
      relieve_inputs(item, of(item).needed);
    }
    return true;
  }

  bool bring_inputs(const Op& what) {
    for (const int read : what.reads) {
      if (!made(read)) continue;
      if (!of(read).live && !make_again(read)) return false;
      ++of(read).locked;
    }
    return true;
  }

  void unlock(int item) {
    if (--of(item).locked == 0 && of(item).parked) touch(item);
  }

  void let_go(const Op& what) {
    for (const int read : what.reads) {
      if (made(read)) unlock(read);
    }
  }

  bool make_again(int item) {
    if (!can_be_made_again(item)) return false;
    const int index = fixed_.maker_[at(item)];
    if (!bring_inputs(op(index)) || !perform(index, false)) return false;
    let_go(op(index));
    schedule_.replays.push_back({index, now_});
    schedule_.seconds += op(index).seconds;
    return schedule_.seconds <= effort_.most_seconds && schedule_.replays.size() <= effort_.most_replays &&
           looks_ <= effort_.most_looks;
  }

  bool execute(int index) {
    from_ = index;
    taken_.clear();
    for (const int item : fixed_.expire_[at(index)]) {
      touch(item);
      suspect(item);
    }
    const Op& what = op(index);
    if (!bring_inputs(what) || !perform(index, true)) return false;
    let_go(what);
    pass(what);
    // Overwritten items are gone; dead ones may go at once.
    sort_by_place(taken_);
    for (const int item : taken_) drop(item);
    if (held_ <= bytes_) return true;
    for (const int item : take_dead()) {
      if (held_ > bytes_) {
        drop(item);
      } else {
        suspect(item);
      }
    }
    return true;
  }

  // Passes the uses of the current op.
  void pass(const Op& what) {
    from_ = now_ + 1;
    for (const int read : what.reads) {
      if (!made(read)) continue;
      ++of(read).passed;
      if (const int use = needed_from(read, from_); use != of(read).needed) need(read, use);
    }
    for (const int item : fixed_.end_[at(now_)]) suspect(item);
  }

  const Evictor& fixed_;
  const Problem& problem_;
  const std::int64_t bytes_;
  const Weights weights_;
  const std::span<const double> keys_;
  const Effort effort_;
  const double least_;  // seconds
  std::int64_t looks_ = 0;
  int now_ = 0, from_ = 0;  // the current op; the first op whose uses are still to come
  std::vector<Item> items_;
  std::vector<int> here_;      // live items
  std::int64_t held_ = 0;      // bytes of the live items
  std::vector<int> taken_;     // items that the current op overwrites
  std::vector<int> touched_;   // items to weigh
  std::vector<int> suspects_;  // a superset of the dead items
  std::vector<Entry> queue_;   // a heap
  Schedule schedule_;
};

std::optional<Schedule> Evictor::schedule(std::int64_t bytes, const Weights& weights, std::span<const double> keys,
                                          const Effort& effort, std::int64_t* looks) const {
  Eviction eviction(*this, bytes, weights, keys, effort);
  std::optional<Schedule> found = eviction.run();
  if (looks != nullptr) *looks += eviction.looks();
  return found;
}

}  // namespace plimsoll::replays
