#include "plan/replays/eviction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace plimsoll::replays {
namespace {

constexpr int kNever = std::numeric_limits<int>::max();

std::size_t at(int index) { return static_cast<std::size_t>(index); }

// The rules of the evictor without its bookkeeping. Each choice examines everything again.
class Plain {
 public:
  Plain(const Problem& problem, std::int64_t bytes, Weights weights, const std::vector<double>& keys, Effort effort)
      : problem_(problem),
        bytes_(bytes),
        weights_(weights),
        keys_(keys),
        effort_(effort),
        live_(keys.size()),
        locked_(keys.size()) {
    maker_.assign(keys.size(), -1);
    for (int i = 0; i < ops(); ++i) {
      begins_.push_back(schedule_.seconds);
      schedule_.seconds += op(i).seconds;
      for (const int item : op(i).writes) maker_[at(item)] = i;
    }
    all_ = schedule_.seconds;
  }

  std::optional<Schedule> run() {
    for (now_ = 0; now_ < ops(); ++now_) {
      from_ = now_;
      if (!bring(op(now_)) || !perform(now_, true)) return {};
      for (const int read : op(now_).reads) --locked_[at(read)];
      from_ = now_ + 1;
      drop_where([&](int item) { return std::count(taken_.begin(), taken_.end(), item) > 0; });
      drop_where([&](int item) { return held() > bytes_ && dead(item); });
    }
    return schedule_;
  }

 private:
  int ops() const { return static_cast<int>(problem_.ops.size()); }
  const Op& op(int index) const { return problem_.ops[at(index)]; }
  const Op& maker(int item) const { return op(maker_[at(item)]); }
  bool gone(int item) const { return maker_[at(item)] >= 0 && !live_[at(item)]; }
  std::int64_t held() const {
    std::int64_t bytes = 0;
    for (const int item : here_) bytes += problem_.items[at(item)];
    return bytes;
  }
  bool reads(int index, int item) const { return std::count(op(index).reads.begin(), op(index).reads.end(), item) > 0; }

  int needed(int item) const {
    int soonest = kNever;
    for (int i = 0; i < ops(); ++i) {
      if (!reads(i, item)) continue;
      if (i >= from_) soonest = std::min(soonest, i);
      if (i >= now_ || !op(i).replayable) continue;
      for (const int made : op(i).writes) soonest = std::min(soonest, live_[at(made)] ? kNever : needed(made));
    }
    return soonest;
  }
  double cost(int item) const {
    double seconds = maker(item).seconds;
    for (const int read : maker(item).reads) seconds += gone(read) ? cost(read) : 0;
    return seconds;
  }
  int deadline(int item) const {
    int latest = maker(item).replayable ? maker(item).until : -1;
    for (const int read : maker(item).reads) latest = std::min(latest, gone(read) ? deadline(read) : kNever);
    return latest;
  }
  int last(int item) const {
    int latest = -1;
    for (int i = 0; i < ops(); ++i) {
      if (!reads(i, item)) continue;
      latest = std::max(latest, i);
      for (const int made : op(i).writes) latest = std::max(latest, op(i).replayable ? std::min(last(made), op(i).until) : i);
    }
    return latest;
  }
  bool again(int item) const { return maker(item).replayable && now_ <= maker(item).until; }
  bool dead(int item) const { return again(item) ? needed(item) == kNever : last(item) < from_; }
  bool may_go(int item) const {
    if (!again(item)) return effort_.last_resort && needed(item) == kNever;
    return !effort_.last_resort || needed(item) == kNever || needed(item) <= deadline(item);
  }
  double worth(int item) const {
    if (!again(item)) return 0;
    const double until = needed(item) == kNever ? all_ : begins_[at(needed(item))];
    const double distance = std::max(until - begins_[at(now_)], all_ * 1e-9);
    return keys_[at(item)] *
           (std::pow(distance, weights_.distance) * std::pow(static_cast<double>(problem_.items[at(item)]), weights_.bytes) /
            std::pow(std::max(cost(item), all_ * 1e-9), weights_.seconds));
  }

  void drop(std::size_t place) {
    live_[at(here_[place])] = 0;
    here_[place] = here_.back();
    here_.pop_back();
  }
  template <class Which>
  void drop_where(Which which) {
    for (std::size_t i = here_.size(); i-- > 0;) {
      if (which(here_[i])) drop(i);
    }
  }

  bool make_room(std::int64_t wanted) {
    if (held() + wanted <= bytes_) return true;
    drop_where([&](int item) { return locked_[at(item)] == 0 && dead(item); });
    while (held() + wanted > bytes_) {
      double most = -1;
      std::size_t chosen = 0;
      for (std::size_t i = 0; i < here_.size(); ++i) {
        if (locked_[at(here_[i])] > 0 || problem_.items[at(here_[i])] == 0 || !may_go(here_[i])) continue;
        if (worth(here_[i]) > most) most = worth(here_[i]), chosen = i;
      }
      if (most < 0) return false;
      drop(chosen);
    }
    return true;
  }

  std::int64_t take_over(const Op& what) {
    taken_.clear();
    std::int64_t bytes = 0;
    from_ = now_ + 1;
    for (const int result : what.writes) {
      for (const auto& [read, written] : what.overwrites) {
        if (written != result || problem_.items[at(read)] != problem_.items[at(result)] || locked_[at(read)] > 1) continue;
        if (std::count(taken_.begin(), taken_.end(), read) > 0 || !dead(read)) continue;
        taken_.push_back(read);
        bytes += problem_.items[at(read)];
        break;
      }
    }
    from_ = now_;
    return bytes;
  }

  bool perform(int index, bool first) {
    const Op& what = op(index);
    std::int64_t wanted = what.scratch;
    std::vector<int> there, fresh;
    for (const int item : what.writes) (live_[at(item)] ? there : fresh).push_back(item);
    for (const int item : fresh) wanted += problem_.items[at(item)];
    for (const int item : there) ++locked_[at(item)];
    std::int64_t taken = first ? take_over(what) : 0;
    for (bool enough = false; !enough;) {
      if (!make_room(wanted - taken)) return false;
      if (first) taken_.clear();
      taken = first && held() + wanted > bytes_ ? take_over(what) : 0;
      enough = held() + wanted - taken <= bytes_;
    }
    for (const int item : there) --locked_[at(item)];
    for (const int item : fresh) live_[at(item)] = 1, here_.push_back(item);
    return true;
  }

  bool bring(const Op& what) {
    for (const int read : what.reads) {
      if (gone(read)) {
        const int index = maker_[at(read)];
        if (!again(read) || !bring(op(index)) || !perform(index, false)) return false;
        for (const int each : op(index).reads) --locked_[at(each)];
        schedule_.replays.push_back({index, now_});
        schedule_.seconds += op(index).seconds;
        if (schedule_.seconds > effort_.most_seconds) return false;
      }
      ++locked_[at(read)];
    }
    return true;
  }

  const Problem& problem_;
  std::int64_t bytes_;
  Weights weights_;
  const std::vector<double>& keys_;
  Effort effort_;
  std::vector<int> maker_;
  std::vector<double> begins_;
  double all_ = 0;
  int now_ = 0, from_ = 0;
  std::vector<char> live_;
  std::vector<int> locked_, here_, taken_;
  Schedule schedule_;
};

// Skips, several results, ties, items of no bytes, ops that may run again for a while or never, results in place. Backward ops
// read the previous gradient and a result of some forward op.
Problem random_problem(std::mt19937& random) {
  const auto below = [&](int count) { return static_cast<int>(random() % static_cast<unsigned>(count)); };
  Problem problem;
  const bool alike = below(2) == 0, limits = below(3) == 0;
  const auto add = [&](Op op, int results) {
    for (; results > 0; --results) {
      op.writes.push_back(static_cast<int>(problem.items.size()));
      problem.items.push_back(alike ? 1 + below(2) : below(12));
    }
    for (const int read : op.reads) {
      if (read > 0 && below(4) == 0) op.overwrites.push_back({read, op.writes[at(below(static_cast<int>(op.writes.size())))]});
    }
    problem.ops.push_back(std::move(op));
  };
  problem.items.push_back(0);
  const int forward = 4 + below(9);
  for (int i = 0; i < forward; ++i) {
    Op op{{static_cast<int>(problem.items.size()) - 1}, {}, {}, 1.0 + below(alike ? 2 : 50), below(4), below(8) > 0};
    if (const int other = below(static_cast<int>(problem.items.size())); other != op.reads[0]) op.reads.push_back(other);
    if (limits && below(4) == 0) op.until = i + 1 + below(2 * forward);
    add(std::move(op), 1 + (below(5) == 0));
  }
  for (int item = static_cast<int>(problem.items.size()) - 1; item > 0; --item) {
    Op op{{item}, {}, {}, 2, 0, below(10) == 0};
    if (const int gradient = static_cast<int>(problem.items.size()) - 1; gradient != item) op.reads.push_back(gradient);
    if (const int other = below(item); below(2) == 0) op.reads.push_back(other);
    add(std::move(op), 1);
  }
  return problem;
}

TEST(Eviction, ChoosesWhatLookingAtEverythingAnewChooses) {
  constexpr Weights kWeights[] = {{1, 1, 1}, {1, 0, 0}, {0, 1, 1}, {2, 1, 1}, {0.5, 1, 1}, {0, 0, 1}};
  std::mt19937 random(41);
  int found = 0, again = 0;
  for (int round = 0; round < 400; ++round) {
    const Problem problem = random_problem(random);
    const Outcome keep = *evaluate(problem, {});
    const Evictor evictor(problem);
    for (const Weights& weights : kWeights) {
      std::vector<double> keys(problem.items.size(), 1.0);
      for (double& key : keys) key = round % 2 == 0 ? 1 : 1 + static_cast<double>(random() % 100);
      Effort effort;
      effort.last_resort = random() % 2 == 0;
      effort.most_seconds = 5 * keep.seconds;
      const std::int64_t bytes = keep.peak * (30 + static_cast<std::int64_t>(random() % 70)) / 100;
      const std::optional<Schedule> ours = evictor.schedule(bytes, weights, keys, effort);
      const std::optional<Schedule> plain = Plain(problem, bytes, weights, keys, effort).run();
      ASSERT_EQ(ours.has_value(), plain.has_value()) << "round " << round;
      if (!ours) continue;
      ASSERT_EQ(ours->replays, plain->replays) << "round " << round;
      ASSERT_EQ(ours->seconds, plain->seconds);
      ++found;
      again += static_cast<int>(ours->replays.size());
    }
  }
  EXPECT_GT(found, 500);
  EXPECT_GT(again, 2000);
}

// Layers of three ops, two of which are cheap, and the backward of each.
Problem layers(int count) {
  Problem problem;
  problem.items.assign(at(6 * count + 2), 64);
  problem.items[0] = 0;
  for (int i = 1; i <= 3 * count; ++i) problem.ops.push_back({{i - 1}, {i}, {}, i % 3 == 0 ? 10.0 : 1.0, 0, true});
  problem.ops.push_back({{3 * count}, {3 * count + 1}, {}, 1, 0, false});
  for (int i = 3 * count; i >= 1; --i) {
    const int gradient = 6 * count + 1 - i;
    problem.ops.push_back({{gradient, i}, {gradient + 1}, {}, 2, 0, false});
  }
  return problem;
}

TEST(Eviction, LooksGrowWithTheOpsAndNotWithTheirSquare) {
  const auto looks_of = [](int count) {
    const Problem problem = layers(count);
    const std::vector<double> keys(problem.items.size(), 1.0);
    std::int64_t looks = 0;
    EXPECT_TRUE(Evictor(problem).schedule(evaluate(problem, {})->peak / 2, {}, keys, {}, &looks).has_value());
    return looks;
  };
  const std::int64_t few = looks_of(250), many = looks_of(2000);
  EXPECT_LT(many, 12 * few) << "of 8 times the ops";
  EXPECT_LT(many, 12000 * 40);
}

TEST(Eviction, AScheduleOfTooManyRunsIsGivenUp) {
  const Problem problem = layers(50);
  const std::vector<double> keys(problem.items.size(), 1.0);
  const Evictor evictor(problem);
  Effort effort;
  const std::optional<Schedule> found = evictor.schedule(64 * 60, {}, keys, effort);
  ASSERT_TRUE(found.has_value());
  effort.most_replays = found->replays.size();
  EXPECT_TRUE(evictor.schedule(64 * 60, {}, keys, effort).has_value());
  effort.most_replays = found->replays.size() - 1;
  EXPECT_FALSE(evictor.schedule(64 * 60, {}, keys, effort).has_value());
}

}  // namespace
}  // namespace plimsoll::replays
