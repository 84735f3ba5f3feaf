#include "plan/layout/search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "base/ceil_div.h"
#include "base/philox.h"
#include "plan/layout/model.h"
#include "plan/layout/nogoods.h"

namespace plimsoll::layout {
namespace {

using Index = std::uint32_t;
constexpr std::int64_t kNever = kNoLimit;
constexpr Index kWaste = Model::kNone;  // the candidate "nothing starts at this section's floor"

// The choice of the next section to fill, and the order of trial among its buffers.
enum class Pick { fewest, lowest, contested };
enum class Order { width, total, area, size };
struct Strategy {
  Pick pick;
  Order order;
};

constexpr std::array<Strategy, 8> kStrategies = {{{Pick::fewest, Order::area},
                                                  {Pick::contested, Order::area},
                                                  {Pick::fewest, Order::size},
                                                  {Pick::contested, Order::size},
                                                  {Pick::lowest, Order::size},
                                                  {Pick::fewest, Order::total},
                                                  {Pick::contested, Order::width},
                                                  {Pick::lowest, Order::width}}};
// A section is not tight if its members leave at least 1/8 of the capacity free.
constexpr std::int64_t kRoomToSpare = 8;
// The nodes of each run in the first round: enough to place all buffers once with a few mistakes. They double every round.
constexpr std::int64_t kLeastSlice = 500;
constexpr std::int64_t first_slice(std::int64_t items) { return std::max(kLeastSlice, items + items / 4); }

struct Range {
  Index begin, end;  // sections
};

struct Change {
  Index index;
  enum class What : Index { low, floor, placed } what;
  std::int64_t before;
};

// One open choice: a range of sections that no unplaced buffer leaves, the candidates for one section of it, and the unsolved
// independent parts under the current candidate.
struct Frame {
  Index section = 0;
  std::size_t candidates_begin = 0, candidates_end = 0, next_candidate = 0;
  std::size_t parts_begin = 0, parts_end = 0, next_part = 0;
  std::size_t trail_mark = 0;
  Range range{0, 0};
  StateKey key;
};

// Every unplaced item i has a least offset low[i]. Placing an item fixes it there and lifts all items that overlap it. The floor
// of a section is the smallest low of its unplaced members: nothing can start below it.
class Search {
 public:
  Search(const Model& model, std::int64_t capacity, std::int64_t rounded_capacity);

  // Runs a strategy from the empty layout within about these limits. Refuted states are kept for later turns. Every turn of a
  // strategy after its first shuffles the order.
  Status run(std::size_t turn, const Limits& limits);

  const Work& work() const { return work_; }
  std::int64_t offset(Index item) const { return low_[item]; }

 private:
  bool is_placed(Index item) const { return key_[item] == kNever; }
  // The members of a section, sorted by key when it was last settled.
  std::span<const Index> members(Index section) const {
    return std::span(live_).subspan(model_.live_begin[section], model_.members(section).size());
  }
  void count(const Model::Item& item, int change);
  void mark_dirty(const Model::Item& item);
  void rank_items(Order order, double noise, std::uint64_t seed);
  bool reset();
  void open(Range range);
  bool advance();
  bool apply(Index candidate, const Frame& frame);
  bool place(Index item);
  bool waste(Index section);
  bool lift(Index item, std::int64_t low);
  bool settle();
  bool settle_section(Index section);
  void undo(std::size_t mark);
  void split(Range range);
  StateKey survey(Range range);
  Index choose_section(Range range) const;
  void collect(Frame& frame);
  std::int64_t least_support(Index item, std::optional<Index> outside) const;

  const Model& model_;
  const std::int64_t capacity_;          // limit for the tops of unrounded buffers
  const std::int64_t rounded_capacity_;  // limit for stacks of rounded sizes
  Strategy strategy_{};
  Work work_;
  std::vector<std::int64_t> low_, size_;
  std::vector<std::int64_t> key_;  // low of unplaced items, kNever for placed ones
  std::vector<Index> live_;        // the members of each section, sorted by key when last settled
  std::vector<Index> open_;        // by section: all members from this one on are placed
  std::vector<std::int64_t> floor_, remaining_;
  std::vector<char> tight_;                 // sections that the members fill almost to the capacity
  std::vector<std::int64_t> weight_;        // by section: refutations that it took part in
  std::vector<Index> unplaced_, crossing_;  // numbers by section; crossing_[s]: unplaced items in both s and s + 1
  std::vector<Index> rank_;
  std::vector<std::int32_t> dirty_;  // differences: section s is dirty where the prefix sum is positive
  Index dirty_begin_ = 0, dirty_end_ = 0;
  std::vector<Change> trail_;
  std::vector<Frame> frames_;
  std::vector<Index> candidates_;
  std::vector<Range> parts_;
  // By section, of the last survey: the end of its run of sections with one floor, the number of buffers that may start there,
  // and the number that would hang over a lower floor.
  std::vector<Index> run_end_;
  std::vector<std::int32_t> options_, blocked_;
  Nogoods nogoods_{std::size_t{1} << 16};
};

Search::Search(const Model& model, std::int64_t capacity, std::int64_t rounded_capacity)
    : model_(model), capacity_(capacity), rounded_capacity_(rounded_capacity) {
  low_.resize(model.size());
  key_.resize(model.size());
  for (const Model::Item& item : model.items) size_.push_back(item.size);
  live_ = model.live;
  weight_.assign(model.sections, 1);
  open_.resize(model.sections);
  tight_.resize(model.sections);
  run_end_.resize(model.sections);
  for (std::vector<std::int32_t>* differences : {&options_, &blocked_, &dirty_}) differences->resize(model.sections + 1);
}

// Ranks by falling key. A random share of `noise` scales each key up, so that rounds differ.
void Search::rank_items(Order order, double noise, std::uint64_t seed) {
  std::vector<double> total(model_.size(), 0);
  for (Index s = 0; s < model_.sections; ++s) {
    for (Index i : model_.members(s)) total[i] = std::max(total[i], static_cast<double>(remaining_[s]));
  }
  const auto key = [&](Index i) -> std::array<double, 3> {
    const double width = model_.items[i].last - model_.items[i].first;
    const double size = static_cast<double>(model_.items[i].size);
    switch (order) {
      case Order::width: return {width, width * size, total[i]};
      case Order::total: return {total[i], width * size, width};
      case Order::area: return {width * size, width, total[i]};
      case Order::size: return {size, width, total[i]};
    }
    return {};
  };
  std::vector<std::array<double, 3>> keys(model_.size());
  for (Index i = 0; i < model_.size(); ++i) {
    keys[i] = key(i);
    keys[i][0] *= 1 + noise * unit_float(static_cast<std::uint32_t>(mix64((seed << 32) + i) >> 32));
  }
  std::vector<Index> items(model_.size());
  std::iota(items.begin(), items.end(), 0);
  std::stable_sort(items.begin(), items.end(), [&](Index a, Index b) { return keys[a] > keys[b]; });
  rank_.resize(model_.size());
  for (Index r = 0; r < model_.size(); ++r) rank_[items[r]] = r;
}

bool Search::reset() {
  trail_.clear();
  frames_.clear();
  candidates_.clear();
  parts_.clear();
  for (std::vector<std::int64_t>* bytes : {&floor_, &remaining_}) bytes->assign(model_.sections, 0);
  for (std::vector<Index>* counts : {&unplaced_, &crossing_}) counts->assign(model_.sections, 0);
  bool fits = true;
  for (Index i = 0; i < model_.size(); ++i) {
    const Model::Item& item = model_.items[i];
    low_[i] = key_[i] = std::max<std::int64_t>(item.fixed, 0);
    fits = fits && low_[i] + item.actual <= capacity_;
    count(item, 1);
  }
  for (Index s = 0; s < model_.sections; ++s) {
    tight_[s] = remaining_[s] > rounded_capacity_ - rounded_capacity_ / kRoomToSpare ? 1 : 0;
    fits = fits && settle_section(s);
  }
  return fits;
}

Status Search::run(std::size_t turn, const Limits& limits) {
  strategy_ = kStrategies[turn % kStrategies.size()];
  if (!reset()) return Status::impossible;
  rank_items(strategy_.order, turn < kStrategies.size() ? 0 : 2, turn);
  const Limits stop{.nodes = work_.nodes + limits.nodes, .visits = work_.visits + limits.visits};
  frames_.emplace_back();  // the root has parts but no choice
  split({0, model_.sections});
  frames_.back().parts_end = parts_.size();
  while (!frames_.empty()) {
    Frame& frame = frames_.back();
    if (frame.next_part == frame.parts_end) {
      candidates_.resize(frame.candidates_begin);
      parts_.resize(frame.parts_begin);
      frames_.pop_back();
      continue;
    }
    open(parts_[frame.next_part++]);
    // The last frame, new or old, tries its next candidate.
    while (frames_.size() > 1 && !advance()) frames_.pop_back();
    if (frames_.size() == 1) return Status::impossible;
    if (stop.reached(work_)) return Status::unknown;
  }
  return Status::fits;
}

// Tries candidates of the last frame until one holds. If none is left, records the state as refuted and returns false.
bool Search::advance() {
  Frame& frame = frames_.back();
  undo(frame.trail_mark);
  parts_.resize(frame.parts_begin);
  while (frame.next_candidate < frame.candidates_end) {
    ++work_.nodes;
    if (apply(candidates_[frame.next_candidate++], frame)) {
      split(frame.range);
      frame.next_part = frame.parts_begin;
      frame.parts_end = parts_.size();
      return true;
    }
    undo(frame.trail_mark);
  }
  nogoods_.insert(frame.key);
  candidates_.resize(frame.candidates_begin);
  return false;
}

// Pushes the choice for one part, unless its state is known to be refuted.
void Search::open(Range range) {
  Frame frame;
  frame.range = range;
  frame.key = survey(range);
  if (nogoods_.contains(frame.key)) return;
  frame.section = choose_section(range);
  frame.trail_mark = trail_.size();
  frame.parts_begin = frame.parts_end = frame.next_part = parts_.size();
  collect(frame);
  frames_.push_back(frame);
}

// Counts the options of each section in the range. The counts start as differences over runs of sections with one floor. Returns
// the key of the state: the unplaced items and their least offsets.
StateKey Search::survey(Range range) {
  std::fill(options_.begin() + range.begin, options_.begin() + range.end + 1, 0);
  std::fill(blocked_.begin() + range.begin, blocked_.begin() + range.end + 1, 0);
  std::int64_t highest = 0;
  for (Index s = range.end; s-- > range.begin;) {
    run_end_[s] = s + 1 < range.end && floor_[s + 1] == floor_[s] ? run_end_[s + 1] : s + 1;
    if (unplaced_[s] > 0) highest = std::max(highest, floor_[s]);
  }
  StateKey key;
  work_.visits += model_.starts[range.end] - model_.starts[range.begin];
  for (Index i = model_.starts[range.begin]; i < model_.starts[range.end]; ++i) {
    if (is_placed(i)) continue;
    const Model::Item& item = model_.items[i];
    const std::int64_t low = low_[i];
    const std::uint64_t mixed = mix64(static_cast<std::uint64_t>(low) * 0x9E3779B97F4A7C15 + i);
    key.low += mixed;
    key.high += mix64(mixed ^ 0xD1B54A32D192ED03);
    if (low > highest) continue;
    const bool flat = floor_[item.first] == low && run_end_[item.first] >= item.last;
    std::vector<std::int32_t>& counts = flat ? options_ : blocked_;
    for (Index s = item.first; s < item.last; s = run_end_[s]) {
      if (floor_[s] != low) continue;
      ++counts[s];
      --counts[std::min(run_end_[s], item.last)];
    }
  }
  for (Index s = range.begin + 1; s < range.end; ++s) {
    options_[s] += options_[s - 1];
    blocked_[s] += blocked_[s - 1];
  }
  return key;
}

Index Search::choose_section(Range range) const {
  Index best = Model::kNone;
  std::array<std::int64_t, 3> best_score{};
  for (Index s = range.begin; s < range.end; ++s) {
    if (unplaced_[s] == 0 || blocked_[s] > 0) continue;
    const std::int64_t slack = rounded_capacity_ - floor_[s] - remaining_[s];
    const std::int64_t choices = options_[s] + (slack >= model_.unit ? 1 : 0);
    std::array<std::int64_t, 3> score{};
    switch (strategy_.pick) {
      case Pick::fewest: score = {choices, floor_[s], slack}; break;
      case Pick::lowest: score = {floor_[s], choices, slack}; break;
      case Pick::contested: score = {choices <= 1 ? 0 : (choices << 32) / weight_[s], choices, floor_[s]}; break;
    }
    if (best == Model::kNone || score < best_score) {
      best = s;
      best_score = score;
    }
  }
  return best;
}

void Search::collect(Frame& frame) {
  frame.candidates_begin = frame.next_candidate = candidates_.size();
  const Index s = frame.section;
  for (const Index i : members(s)) {
    if (is_placed(i) || low_[i] != floor_[s]) continue;
    const Index twin = model_.items[i].twin;
    if (twin != Model::kNone && !is_placed(twin) && low_[twin] == low_[i]) continue;
    candidates_.push_back(i);
  }
  std::sort(candidates_.begin() + static_cast<std::ptrdiff_t>(frame.candidates_begin), candidates_.end(),
            [&](Index a, Index b) { return rank_[a] < rank_[b]; });
  if (floor_[s] + remaining_[s] + model_.unit <= rounded_capacity_) candidates_.push_back(kWaste);
  frame.candidates_end = candidates_.size();
}

bool Search::apply(Index candidate, const Frame& frame) {
  dirty_begin_ = model_.sections;
  dirty_end_ = 0;
  const bool ok = candidate == kWaste ? waste(frame.section) : place(candidate);
  if (ok) return settle();
  std::fill(dirty_.begin() + dirty_begin_, dirty_.begin() + std::max(dirty_begin_, dirty_end_) + 1, 0);
  return false;
}

// Adds `change` to the counts of unplaced items in the sections of `item`.
void Search::count(const Model::Item& item, int change) {
  for (Index s = item.first; s < item.last; ++s) {
    remaining_[s] += change * item.size;
    unplaced_[s] += static_cast<Index>(change);
    if (s + 1 < item.last) crossing_[s] += static_cast<Index>(change);
    if (change > 0) open_[s] = static_cast<Index>(members(s).size());
  }
}

bool Search::place(Index index) {
  const Model::Item& item = model_.items[index];
  const std::int64_t top = low_[index] + item.size;
  trail_.push_back({index, Change::What::placed, 0});
  key_[index] = kNever;
  count(item, -1);
  mark_dirty(item);
  for (const Index i : members(item.first)) {
    if (!is_placed(i) && low_[i] < top && !lift(i, top)) return false;
  }
  for (Index i = model_.starts[item.first + 1]; i < model_.starts[item.last]; ++i) {
    if (!is_placed(i) && low_[i] < top && !lift(i, top)) return false;
  }
  return true;
}

// The lowest top of the unplaced items that overlap `index`, without those that live in section `outside`.
std::int64_t Search::least_support(Index index, std::optional<Index> outside) const {
  const Model::Item& item = model_.items[index];
  std::int64_t least = kNever;
  const auto visit = [&](Index i) {
    if (i == index || is_placed(i)) return;
    if (outside && model_.items[i].first <= *outside && *outside < model_.items[i].last) return;
    least = std::min(least, low_[i] + model_.items[i].size);
  };
  std::ranges::for_each(members(item.first), visit);
  for (Index i = model_.starts[item.first + 1]; i < model_.starts[item.last]; ++i) visit(i);
  return least;
}

// Leaves the floor of `section` empty. In a canonical layout an item above its least offset lies on another unplaced item. The
// lowest item of the section lies on an item outside the section.
bool Search::waste(Index section) {
  const std::int64_t floor = floor_[section];
  std::int64_t next_floor = kNever;
  for (const Index i : members(section)) {
    if (is_placed(i)) continue;
    if (low_[i] == floor && model_.items[i].fixed >= 0) return false;
    next_floor = std::min(next_floor, low_[i] > floor ? low_[i] : least_support(i, section));
  }
  if (next_floor + remaining_[section] > rounded_capacity_) return false;
  std::vector<std::pair<Index, std::int64_t>> lifts;
  for (const Index i : members(section)) {
    if (is_placed(i)) continue;
    const std::int64_t low = low_[i] > floor ? next_floor : std::max(next_floor, least_support(i, {}));
    if (low > low_[i]) lifts.emplace_back(i, low);
  }
  for (const auto& [i, low] : lifts) {
    if (!lift(i, low)) return false;
  }
  return true;
}

bool Search::lift(Index index, std::int64_t low) {
  const Model::Item& item = model_.items[index];
  if (item.fixed >= 0 || low + item.actual > capacity_) return false;
  trail_.push_back({index, Change::What::low, low_[index]});
  low_[index] = key_[index] = low;
  mark_dirty(item);
  return true;
}

void Search::mark_dirty(const Model::Item& item) {
  ++dirty_[item.first];
  --dirty_[item.last];
  dirty_begin_ = std::min(dirty_begin_, item.first);
  dirty_end_ = std::max(dirty_end_, item.last);
}

bool Search::settle() {
  std::int32_t depth = 0;
  bool fits = true;
  for (Index s = dirty_begin_; s < dirty_end_; ++s) {
    depth += dirty_[s];
    dirty_[s] = 0;
    if (depth > 0 && fits) fits = settle_section(s);
  }
  dirty_[dirty_end_] = 0;
  return fits;
}

// Sorts the members by least offset, sets the floor and checks that the members fit. The check treats the section as a machine
// with release times, so it is exact for one section. A section that is not tight is checked only if its floor rose.
bool Search::settle_section(Index section) {
  Index* const begin = live_.data() + model_.live_begin[section];
  Index* const end = begin + open_[section];
  if (!tight_[section]) {
    const Index* const lowest = std::find_if(begin, end, [&](Index i) { return key_[i] == floor_[section]; });
    work_.visits += lowest - begin;
    if (lowest != end) return true;
  }
  work_.visits += open_[section];
  for (Index* at = begin + 1; at < end; ++at) {
    const Index item = *at;
    const std::int64_t key = key_[item];
    Index* hole = at;
    for (; hole > begin && key_[hole[-1]] > key; --hole) *hole = hole[-1];
    *hole = item;
  }
  std::int64_t top = 0;
  Index* at = begin;
  for (; at < end && key_[*at] != kNever; ++at) top = std::max(top, key_[*at]) + size_[*at];
  open_[section] = static_cast<Index>(at - begin);
  const std::int64_t floor = at > begin ? key_[*begin] : kNever;
  if (floor != floor_[section]) {
    trail_.push_back({section, Change::What::floor, floor_[section]});
    floor_[section] = floor;
  }
  if (top > rounded_capacity_) ++weight_[section];
  return top <= rounded_capacity_;
}

void Search::undo(std::size_t mark) {
  while (trail_.size() > mark) {
    const Change change = trail_.back();
    trail_.pop_back();
    switch (change.what) {
      case Change::What::low: low_[change.index] = key_[change.index] = change.before; break;
      case Change::What::floor: floor_[change.index] = change.before; break;
      case Change::What::placed:
        key_[change.index] = low_[change.index];
        count(model_.items[change.index], 1);
        break;
    }
  }
}

// Appends the parts of `range` that no unplaced item connects.
void Search::split(Range range) {
  Index begin = range.begin;
  for (Index s = range.begin; s < range.end; ++s) {
    const bool cut = s + 1 == range.end || crossing_[s] == 0;
    if (!cut) continue;
    if (s > begin || unplaced_[s] > 0) parts_.push_back({begin, s + 1});
    begin = s + 1;
  }
}

SearchResult found(const Problem& problem, const Model& model, const Search& search) {
  SearchResult result;
  result.status = Status::fits;
  result.work = search.work();
  result.solution.offsets.assign(problem.buffers.size(), 0);
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    result.solution.offsets[i] = std::max<std::int64_t>(problem.buffers[i].fixed_offset, 0);
  }
  for (Index i = 0; i < model.size(); ++i) result.solution.offsets[model.items[i].buffer] = search.offset(i);
  result.solution.height = height_of(problem, result.solution.offsets);
  return result;
}

}  // namespace

const char* status_name(Status status) {
  switch (status) {
    case Status::fits: return "fits";
    case Status::impossible: return "impossible";
    case Status::unknown: return "unknown";
  }
  return "";
}

SearchResult search(const Problem& problem, std::int64_t capacity, const Limits& limits) {
  validate(problem);
  if (capacity < lower_bound(problem)) {
    return {.status = Status::impossible, .solution = {}, .refuted = lower_bound(problem) - 1};
  }
  SearchResult result;
  const Model model = make_model(problem);
  if (model.size() > 0 && model.sections == 0) return result;
  const std::int64_t rounded = round_up(capacity, problem.alignment) / model.unit * model.unit;
  Search search(model, capacity, rounded);
  std::int64_t slice = first_slice(model.size());
  for (std::size_t turn = 0; !limits.reached(search.work()); ++turn) {
    if (turn > 0 && turn % kStrategies.size() == 0) slice = std::min(slice * 2, kNever / 4);
    Limits left = limits.after(search.work());
    left.nodes = std::min(left.nodes, slice);
    result.status = search.run(turn, left);
    if (result.status == Status::fits) return found(problem, model, search);
    if (result.status == Status::impossible) break;
  }
  // Without padding every height is a multiple of the unit.
  const bool padded =
      std::any_of(model.items.begin(), model.items.end(), [](const auto& item) { return item.size != item.actual; });
  if (result.status == Status::impossible) result.refuted = padded ? capacity : rounded + model.unit - 1;
  result.work = search.work();
  return result;
}

}  // namespace plimsoll::layout
