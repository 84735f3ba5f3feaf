#include "plan/blocks.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/hash.h"

namespace plimsoll {
namespace {

// Forward nodes up to a cut. `held`: what crosses the cut is held between the passes.
struct Piece {
  std::vector<NodeId> nodes;
  bool held = false;
  std::size_t backward_end = 0;  // place of the last backward node of its lines, counted from 1
  std::size_t fed_until = std::numeric_limits<std::size_t>::max();  // of the last one that reads what is fed into it
};

std::vector<NodeId> forward_nodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (const NodeId id : graph.section_order(main_section(graph))) {
    if (!graph.nodes[id].backward) nodes.push_back(id);
  }
  return nodes;
}

// What the backward pass of another line than its own reads: it is held between the passes whatever its own line does.
std::set<ValueId> held_for_others(const Graph& graph) {
  std::set<ValueId> held;
  for (const NodeId id : graph.section_order(Section::micro)) {
    const Node& node = graph.nodes[id];
    for (const ValueId input : node.backward ? node.inputs : std::vector<ValueId>{}) {
      const ValueId origin = origin_of(graph, input);
      const NodeId producer = graph.values[origin].producer;
      if (producer.valid() && graph.nodes[producer].line != node.line) held.insert(origin);
    }
  }
  return held;
}

// Cuts after each node where exactly one computed value is still needed by later forward nodes.
std::vector<Piece> cut(const Graph& graph, const std::vector<NodeId>& forward) {
  const std::set<ValueId> held = held_for_others(graph);
  const bool one_way = std::ranges::none_of(graph.nodes, &Node::backward);  // there is no second pass to hold it for
  std::map<ValueId, std::size_t> last_use;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    for (const ValueId input : graph.nodes[forward[i]].inputs) {
      if (graph.values[input].producer.valid()) last_use[input] = i;
    }
  }
  std::vector<Piece> pieces(1);
  std::set<ValueId> crossing;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    pieces.back().nodes.push_back(forward[i]);
    for (const ValueId output : graph.nodes[forward[i]].outputs) {
      if (last_use.contains(output)) crossing.insert(output);
    }
    for (const ValueId input : graph.nodes[forward[i]].inputs) {
      const auto use = last_use.find(input);
      if (use != last_use.end() && use->second == i) crossing.erase(input);
    }
    if (crossing.size() != 1 || i + 1 == forward.size()) continue;
    pieces.back().held = one_way || held.contains(origin_of(graph, *crossing.begin()));
    pieces.emplace_back();
  }
  return pieces;
}

// What is fed is there until the last backward node that reads it: until a line's own one, where that does.
void find_backward(const Graph& graph, std::vector<Piece>& pieces) {
  std::unordered_map<Symbol, std::size_t> end_of_line;
  std::map<ValueId, std::size_t> last_read;
  std::set<std::pair<std::string, ValueId>> read_by_line;
  std::size_t place = 0;
  for (const NodeId id : graph.section_order(Section::micro)) {
    const Node& node = graph.nodes[id];
    if (!node.backward) continue;
    end_of_line[node.line] = ++place;
    for (const ValueId input : node.inputs) last_read[input] = place, read_by_line.emplace(node.line.text(), input);
  }
  for (Piece& piece : pieces) {
    for (const NodeId id : piece.nodes) {
      const Node& node = graph.nodes[id];
      if (const auto end = end_of_line.find(node.line); end != end_of_line.end())
        piece.backward_end = std::max(piece.backward_end, end->second);
      for (const ValueId input : node.inputs) {
        const Value& value = graph.values[input];
        if (value.persistent() || value.producer.valid() || read_by_line.contains({node.line.text(), input})) continue;
        const auto read = last_read.find(input);
        piece.fed_until = std::min(piece.fed_until, read == last_read.end() ? 0 : read->second);
      }
    }
  }
}

// Whether what comes into pieces [begin, end) is there until their backward pass ends, whatever they and others make again: their
// bytes then are their own affair. Where some layers are frozen it need not be.
bool stands_alone(const std::vector<Piece>& pieces, std::size_t begin, std::size_t end) {
  if (begin > 0 && !pieces[begin - 1].held) return false;
  std::size_t backward_end = 0, fed_until = std::numeric_limits<std::size_t>::max();
  for (std::size_t i = begin; i < end; ++i) {
    backward_end = std::max(backward_end, pieces[i].backward_end);
    fed_until = std::min(fed_until, pieces[i].fed_until);
  }
  return fed_until >= backward_end;
}

// Op, types and where inputs come from, relative to the piece; names, sites and noise keys do not count.
std::string structure(const Graph& graph, const Piece& piece) {
  std::map<ValueId, std::size_t> inside;
  std::string text;
  for (const NodeId id : piece.nodes) {
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
  return hash_hex(text);
}

struct Run {
  std::size_t begin = 0, period = 0, repeats = 0;
  std::size_t pieces() const { return period * repeats; }
};

// The periodic run among pieces [first, behind) that covers most nodes; of equal ones the shortest period. The period holds more
// than one node, so that a chain of single ops is not taken for layers, and each of them stands alone.
Run longest_run(const std::vector<Piece>& pieces, const std::vector<std::string>& hashes, std::size_t first, std::size_t behind) {
  std::vector<std::size_t> nodes_before{0};
  for (const Piece& piece : pieces) nodes_before.push_back(nodes_before.back() + piece.nodes.size());
  Run best;
  std::size_t most = 0;
  for (std::size_t period = 1; period <= (behind - first) / 2; ++period) {
    for (std::size_t begin = first; begin + 2 * period <= behind; ++begin) {
      if (nodes_before[begin + period] - nodes_before[begin] < 2 || !stands_alone(pieces, begin, begin + period)) continue;
      std::size_t end = begin + period;
      while (end < behind && hashes[end] == hashes[end - period]) ++end;
      Run run{begin, period, 1};
      while (run.repeats < (end - begin) / period && stands_alone(pieces, begin + run.pieces(), begin + run.pieces() + period))
        ++run.repeats;
      const std::size_t nodes = nodes_before[begin + run.pieces()] - nodes_before[begin];
      if (run.repeats < 2 || nodes <= most) continue;
      best = run;
      most = nodes;
    }
  }
  return best;
}

// In order: the longest run, and those before and behind it.
void add_runs(const std::vector<Piece>& pieces, const std::vector<std::string>& hashes, std::size_t first, std::size_t behind,
              std::vector<Run>& runs) {
  const Run run = longest_run(pieces, hashes, first, behind);
  if (run.repeats == 0) return;
  add_runs(pieces, hashes, first, run.begin, runs);
  runs.push_back(run);
  add_runs(pieces, hashes, run.begin + run.pieces(), behind, runs);
}

// Where nothing repeats (one layer), the stretch from the first to the last piece of several nodes counts as a single block, or
// what of its end stands alone.
Run whole_stretch(const std::vector<Piece>& pieces) {
  const auto several = [](const Piece& piece) { return piece.nodes.size() > 1; };
  const auto first = std::find_if(pieces.begin(), pieces.end(), several);
  const auto last = std::find_if(pieces.rbegin(), pieces.rend(), several);
  const auto end = static_cast<std::size_t>(last.base() - pieces.begin());
  auto begin = static_cast<std::size_t>(first - pieces.begin());
  while (begin < end && !stands_alone(pieces, begin, end)) ++begin;
  return begin < end ? Run{begin, end - begin, 1} : Run{};
}

std::string shared_line(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::string shared = graph.nodes[nodes.front()].line;
  for (const NodeId id : nodes) {
    const std::string& line = graph.nodes[id].line;
    while (!shared.empty() && line != shared && line.compare(0, shared.size() + 1, shared + ".") != 0) {
      const std::size_t dot = shared.rfind('.');
      shared.resize(dot == std::string::npos ? 0 : dot);
    }
  }
  return shared;
}

}  // namespace

Section main_section(const Graph& graph) {
  return graph.section_order(Section::micro).empty() && !graph.forward.empty() ? forward_section(0) : Section::micro;
}

std::vector<GraphBlock> find_blocks(const Graph& graph) {
  std::vector<Piece> pieces = cut(graph, forward_nodes(graph));
  find_backward(graph, pieces);
  std::vector<std::string> hashes;
  for (const Piece& piece : pieces) hashes.push_back(structure(graph, piece));
  std::vector<Run> runs;
  add_runs(pieces, hashes, 0, pieces.size(), runs);
  if (runs.empty()) runs.push_back(whole_stretch(pieces));
  std::vector<GraphBlock> blocks;
  for (const Run& run : runs) {
    for (std::size_t i = 0; i < run.repeats; ++i) {
      GraphBlock block;
      for (std::size_t j = 0; j < run.period; ++j) {
        const Piece& piece = pieces[run.begin + i * run.period + j];
        block.nodes.insert(block.nodes.end(), piece.nodes.begin(), piece.nodes.end());
        block.cuts.push_back(piece.nodes.back());
      }
      block.name = shared_line(graph, block.nodes);
      if (block.name.empty()) block.name = fmt::format("block {}", blocks.size());
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

std::unordered_map<Symbol, int> blocks_of_lines(const Graph& graph, const std::vector<GraphBlock>& blocks) {
  std::unordered_map<Symbol, int> block_of_line;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const NodeId id : blocks[i].nodes) block_of_line[graph.nodes[id].line] = static_cast<int>(i);
  }
  return block_of_line;
}

}  // namespace plimsoll
