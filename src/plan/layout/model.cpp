#include "plan/layout/model.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "base/ceil_div.h"

namespace plimsoll::layout {
namespace {

std::vector<Model::Item> live_items(const Problem& problem, const std::vector<Span>& spans) {
  std::vector<Model::Item> items;
  for (std::size_t i = 0; i < problem.buffers.size(); ++i) {
    const Buffer& buffer = problem.buffers[i];
    if (!buffer.live()) continue;
    Model::Item item{spans[i]};
    item.size = round_up(buffer.size, problem.alignment);
    item.actual = buffer.size;
    item.fixed = buffer.fixed_offset;
    item.buffer = static_cast<std::uint32_t>(i);
    items.push_back(item);
  }
  return items;
}

bool comes_before(const Model::Item& a, const Model::Item& b) {
  return std::tie(a.first, b.last, b.size, b.actual, a.fixed, a.buffer) <
         std::tie(b.first, a.last, a.size, a.actual, b.fixed, b.buffer);
}

bool equal_but_index(const Model::Item& a, const Model::Item& b) {
  return a.first == b.first && a.last == b.last && a.size == b.size && a.actual == b.actual && a.fixed < 0 && b.fixed < 0;
}

void fill_members(Model& model) {
  model.starts.assign(model.sections + 1, 0);
  model.live_begin.assign(model.sections + 1, 0);
  for (const Model::Item& item : model.items) {
    ++model.starts[item.first + 1];
    for (std::uint32_t s = item.first; s < item.last; ++s) ++model.live_begin[s + 1];
  }
  std::partial_sum(model.starts.begin(), model.starts.end(), model.starts.begin());
  std::partial_sum(model.live_begin.begin(), model.live_begin.end(), model.live_begin.begin());
  model.live.resize(model.live_begin.back());
  std::vector<std::size_t> next(model.live_begin.begin(), model.live_begin.end() - 1);
  for (std::uint32_t i = 0; i < model.size(); ++i) {
    const Model::Item& item = model.items[i];
    for (std::uint32_t s = item.first; s < item.last; ++s) model.live[next[s]++] = i;
  }
}

}  // namespace

// A section ends where a buffer ends after another one has started.
Sections sections_of(const Problem& problem) {
  Sections sections{std::vector<Span>(problem.buffers.size())};
  bool open = false;  // a buffer started since the last end
  for (const auto& [time, starts, i] : events_of(problem)) {
    if (!starts && open) ++sections.count;
    open = starts;
    (starts ? sections.spans[i].first : sections.spans[i].last) = sections.count;
  }
  return sections;
}

Model make_model(const Problem& problem) {
  const Sections sections = sections_of(problem);
  Model model;
  model.items = live_items(problem, sections.spans);
  model.sections = sections.count;
  std::sort(model.items.begin(), model.items.end(), comes_before);
  std::size_t members = 0;
  std::int64_t unit = 0;
  for (std::size_t i = 0; i < model.items.size(); ++i) {
    Model::Item& item = model.items[i];
    members += item.last - item.first;
    unit = std::gcd(unit, std::gcd(item.size, std::max<std::int64_t>(item.fixed, 0)));
    if (i > 0 && equal_but_index(model.items[i - 1], item)) item.twin = static_cast<std::uint32_t>(i) - 1;
  }
  model.unit = std::max<std::int64_t>(unit, 1);
  if (members > kMostMembers) {
    model.sections = 0;
    return model;
  }
  fill_members(model);
  return model;
}

}  // namespace plimsoll::layout
