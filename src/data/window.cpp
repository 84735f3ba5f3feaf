#include "data/window.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <tuple>

#include "base/ceil_div.h"
#include "base/error.h"

namespace plimsoll {
namespace {

// Rows filled by first fit. A tree over the room of all rows finds the first one with enough.
class FirstFit {
 public:
  FirstFit(std::size_t rows, std::int64_t room) : leaves_(std::bit_ceil(rows)), room_(2 * leaves_, room) {}

  // The first row with room for `positions`, and the first free position in it.
  std::pair<std::size_t, std::int64_t> place(std::int64_t positions, std::int64_t room) {
    std::size_t node = 1;
    ensure(room_[node] >= positions, "first fit", "a sample that no row holds");
    while (node < leaves_) node = room_[2 * node] >= positions ? 2 * node : 2 * node + 1;
    const std::int64_t begin = room - room_[node];
    const std::size_t row = node - leaves_;
    room_[node] -= positions;
    while ((node /= 2) > 0) room_[node] = std::max(room_[2 * node], room_[2 * node + 1]);
    return {row, begin};
  }

 private:
  std::size_t leaves_;
  std::vector<std::int64_t> room_;  // the largest room below each inner node, then the room of each row
};

void pack(const std::vector<std::int64_t>& sizes, std::int64_t room, std::vector<PlacedSample>& placed) {
  std::vector<std::size_t> longest_first(sizes.size());
  std::iota(longest_first.begin(), longest_first.end(), std::size_t{0});
  std::ranges::stable_sort(longest_first, [&](std::size_t a, std::size_t b) { return sizes[a] > sizes[b]; });
  FirstFit rows(sizes.size(), room);
  for (const std::size_t i : longest_first) {
    const auto [row, begin] = rows.place(sizes[i], room);
    placed[i].row = static_cast<std::int32_t>(row);
    placed[i].begin = static_cast<std::int32_t>(begin);
  }
  std::ranges::sort(placed, {}, [](const PlacedSample& each) { return std::tuple(each.row, each.begin); });
}

}  // namespace

void cut_window(const SampleOrder& order, const SampleSource& source, const WindowRule& rule, std::int64_t first,
                Window& window) {
  ensure(rule.samples > 0 || rule.positions > 0, "cut_window", "a window without a size");
  window.first = first;
  window.samples = window.units = window.positions = 0;
  window.placed.clear();
  std::vector<std::int64_t> sizes;
  const auto full = [&](const SampleSize& next) {
    if (window.samples == 0) return false;
    if (rule.span > 0 && window.end() % rule.span == 0) return true;
    return rule.samples > 0 ? window.samples == rule.samples : window.positions + next.positions > rule.positions;
  };
  while (rule.samples == 0 || window.samples < rule.samples) {
    const SampleRef ref = order.at(window.end());
    const SampleSize size = source.size(ref.sample);
    ensure(size.positions >= 1 && size.positions <= rule.row, "cut_window", "a sample that no row holds");
    if (full(size)) break;
    window.placed.push_back({ref, static_cast<std::int32_t>(window.samples), 0});
    if (rule.packs) sizes.push_back(size.positions);
    ++window.samples;
    window.units += size.units;
    window.positions += size.positions;
  }
  if (rule.packs) pack(sizes, rule.row, window.placed);
  window.rows = window.placed.back().row + 1;
}

WindowBatches::WindowBatches(const SampleSource& source, SampleOrder order, WindowRule rule, std::int64_t rows,
                             std::int64_t batches, BatchShare share)
    : source_(source), order_(order), rule_(rule), rows_(rows), batches_(batches), share_(share) {
  batch_.reserve(static_cast<std::size_t>(rows));
}

void WindowBatches::seek(std::int64_t position) {
  cut_window(order_, source_, rule_, position, window_);
  taken_ = 0;
  placed_ = 0;
}

std::int64_t WindowBatches::batches_of(const Window& window) const {
  return batches_ > 0 ? batches_ : ceil_div(ceil_div(window.rows, rows_), share_.ranks);
}

std::span<const PlacedSample> WindowBatches::next() {
  if (taken_ == batches_of(window_)) seek(window_.end());
  const std::int64_t first_row = (taken_ * share_.ranks + share_.rank) * rows_;
  batch_.clear();
  while (placed_ < window_.placed.size() && window_.placed[placed_].row < first_row) ++placed_;
  for (; placed_ < window_.placed.size() && window_.placed[placed_].row < first_row + rows_; ++placed_) {
    batch_.push_back(window_.placed[placed_]);
    batch_.back().row -= static_cast<std::int32_t>(first_row);
  }
  ++taken_;
  return batch_;
}

}  // namespace plimsoll
