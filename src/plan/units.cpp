#include "plan/units.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>

#include "plan/replays/regions.h"

namespace plimsoll {
namespace {

using Piece = std::vector<NodeId>;  // forward nodes up to a cut

std::vector<Piece> pieces_of(const Graph& graph) {
  replays::Problem problem;
  std::vector<NodeId> forward;
  std::map<ValueId, int> item_of;
  for (const NodeId id : graph.section_order(main_section(graph))) {
    const Node& node = graph.nodes[id];
    if (node.backward) continue;
    replays::Op op{.pass = replays::Pass::forward};
    for (const ValueId input : node.inputs) {
      if (const auto item = item_of.find(input); item != item_of.end()) op.reads.push_back(item->second);
    }
    for (const ValueId output : node.outputs) {
      op.writes.push_back(item_of[output] = static_cast<int>(problem.items.size()));
      problem.items.push_back(graph.values[output].bytes().n);
    }
    problem.ops.push_back(std::move(op));
    forward.push_back(id);
  }
  std::vector<Piece> pieces;
  int begin = 0;
  for (const int end : regions::find_cuts(problem)) {
    pieces.emplace_back(forward.begin() + begin, forward.begin() + end);
    begin = end;
  }
  return pieces;
}

// For each piece, the first piece of equal structure: ops, types, and sources of inputs relative to the piece. Names, sites and
// noise keys do not count.
std::vector<std::size_t> classes_of(const Graph& graph, const std::vector<Piece>& pieces) {
  std::map<std::string, std::size_t> known;
  std::vector<std::size_t> classes;
  for (const Piece& piece : pieces) {
    std::map<ValueId, std::size_t> inside;
    std::string text;
    for (const NodeId id : piece) {
      const Node& node = graph.nodes[id];
      text += node.op->name;
      text += node.attributes.text_without_noise();
      for (const ValueId input : node.inputs) {
        const Value& value = graph.values[input];
        const auto local = inside.find(input);
        text += fmt::format(" {}{}{}", name(value.type.dtype), to_text(value.type.shape),
                            local == inside.end() ? (value.persistent() ? "p" : "x") : fmt::format("#{}", local->second));
      }
      for (const ValueId output : node.outputs) inside.emplace(output, inside.size());
      text += "\n";
    }
    classes.push_back(known.emplace(std::move(text), classes.size()).first->second);
  }
  return classes;
}

struct Run {
  std::size_t begin = 0, period = 0, repeats = 0;
  std::size_t end() const { return begin + period * repeats; }
};

// The periodic run among pieces [first, behind) that covers most nodes; ties go to the shortest period. A period has more than
// one node, so a chain of single ops does not count as layers.
Run longest_run(const std::vector<Piece>& pieces, const std::vector<std::size_t>& classes, std::size_t first,
                std::size_t behind) {
  std::vector<std::size_t> nodes_before{0};
  for (const Piece& piece : pieces) nodes_before.push_back(nodes_before.back() + piece.size());
  Run best;
  std::size_t most = 0;
  std::vector<std::size_t> end(behind + 1, behind);  // by piece: the first piece at or after it that does not repeat
  for (std::size_t period = 1; period <= (behind - first) / 2; ++period) {
    for (std::size_t i = behind; i-- > first + period;) end[i] = classes[i] == classes[i - period] ? end[i + 1] : i;
    for (std::size_t begin = first; begin + 2 * period <= behind; ++begin) {
      if (nodes_before[begin + period] - nodes_before[begin] < 2) continue;
      const Run run{begin, period, (end[begin + period] - begin) / period};
      const std::size_t nodes = nodes_before[run.end()] - nodes_before[begin];
      if (run.repeats < 2 || nodes <= most) continue;
      best = run;
      most = nodes;
    }
  }
  return best;
}

// Sets the end of each period at its first piece, for the longest run and the runs before and after it. Other pieces have 0.
void find_periods(const std::vector<Piece>& pieces, const std::vector<std::size_t>& classes, std::size_t first,
                  std::size_t behind, std::vector<std::size_t>& ends) {
  const Run run = longest_run(pieces, classes, first, behind);
  if (run.repeats == 0) return;
  for (std::size_t begin = run.begin; begin < run.end(); begin += run.period) ends[begin] = begin + run.period;
  find_periods(pieces, classes, first, run.begin, ends);
  find_periods(pieces, classes, run.end(), behind, ends);
}

// The line up to its first number ("h.3" of "h.3.attn"); empty if it has no number.
std::string_view numbered_part(std::string_view line) {
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find('.', begin), line.size());
    if (end > begin && line[end - 1] >= '0' && line[end - 1] <= '9') return line.substr(0, end);
    begin = end + 1;
  }
  return {};
}

}  // namespace

Section main_section(const Graph& graph) {
  return graph.section_order(Section::micro).empty() && !graph.forward.empty() ? forward_section(0) : Section::micro;
}

std::vector<Unit> find_units(const Graph& graph) {
  const std::vector<Piece> pieces = pieces_of(graph);
  std::vector<std::size_t> ends(pieces.size(), 0);
  find_periods(pieces, classes_of(graph, pieces), 0, pieces.size(), ends);
  const auto line_of = [&](std::size_t piece) -> const std::string& { return graph.nodes[pieces[piece].front()].line.text(); };
  std::vector<Unit> units;
  for (std::size_t begin = 0, end = 0; begin < pieces.size(); begin = end) {
    const std::string_view part = numbered_part(line_of(begin));
    const bool repeated = ends[begin] != 0;
    end = repeated ? ends[begin] : begin + 1;
    while (!repeated && !part.empty() && end < pieces.size() && ends[end] == 0 && numbered_part(line_of(end)) == part) ++end;
    Unit unit{.name = std::string(part.empty() ? line_of(begin) : part), .nodes = {}, .cuts = {}};
    for (std::size_t piece = begin; piece < end; ++piece) {
      unit.nodes.insert(unit.nodes.end(), pieces[piece].begin(), pieces[piece].end());
      unit.cuts.push_back(pieces[piece].back());
    }
    unit.block = repeated || (!part.empty() && unit.nodes.size() > 1);
    units.push_back(std::move(unit));
  }
  std::ranges::stable_partition(units, std::identity{}, &Unit::block);
  return units;
}

int block_count(const std::vector<Unit>& units) { return static_cast<int>(std::ranges::count(units, true, &Unit::block)); }

PerNode<int> units_of_nodes(const Graph& graph, const std::vector<Unit>& units) {
  std::unordered_map<Symbol, int> unit_of_line;
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const NodeId id : units[i].nodes) unit_of_line.emplace(graph.nodes[id].line, static_cast<int>(i));
  }
  PerNode<int> unit_of(graph.nodes.size(), -1);
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto found = unit_of_line.find(graph.nodes[NodeId{i}].line);
    if (found != unit_of_line.end()) unit_of[NodeId{i}] = found->second;
  }
  return unit_of;
}

}  // namespace plimsoll
