#include "plan/blocks.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>

#include "base/hash.h"

namespace plimsoll {
namespace {

using Piece = std::vector<NodeId>;  // forward nodes up to a cut

std::vector<NodeId> forward_nodes(const Graph& graph) {
  std::vector<NodeId> nodes;
  for (const NodeId id : graph.section_order(main_section(graph))) {
    if (!graph.nodes[id].backward) nodes.push_back(id);
  }
  return nodes;
}

// Cuts after each node where exactly one computed value is still needed by later forward nodes.
std::vector<Piece> cut(const Graph& graph, const std::vector<NodeId>& forward) {
  std::map<ValueId, std::size_t> last_use;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    for (const ValueId input : graph.nodes[forward[i]].inputs) {
      if (graph.values[input].producer.valid()) last_use[input] = i;
    }
  }
  std::vector<Piece> pieces(1);
  std::size_t crossing = 0;
  for (std::size_t i = 0; i < forward.size(); ++i) {
    pieces.back().push_back(forward[i]);
    for (const ValueId output : graph.nodes[forward[i]].outputs) crossing += last_use.contains(output) ? 1 : 0;
    for (const ValueId input : graph.nodes[forward[i]].inputs) {
      const auto use = last_use.find(input);
      if (use == last_use.end() || use->second != i) continue;
      last_use.erase(use);
      --crossing;
    }
    if (crossing == 1 && i + 1 < forward.size()) pieces.emplace_back();
  }
  return pieces;
}

// Op, types and where inputs come from, relative to the piece; names, sites and noise keys do not count.
std::string structure(const Graph& graph, const Piece& piece) {
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
  return hash_hex(text);
}

struct Run {
  std::size_t begin = 0, period = 0, repeats = 0;
  std::size_t pieces() const { return period * repeats; }
};

// The periodic run among pieces [first, behind) that covers most nodes; of equal ones the shortest period. The period holds more
// than one node, so that a chain of single ops is not taken for layers.
Run longest_run(const std::vector<Piece>& pieces, const std::vector<std::string>& hashes, std::size_t first, std::size_t behind) {
  std::vector<std::size_t> nodes_before{0};
  for (const Piece& piece : pieces) nodes_before.push_back(nodes_before.back() + piece.size());
  Run best;
  std::size_t most = 0;
  for (std::size_t period = 1; period <= (behind - first) / 2; ++period) {
    for (std::size_t begin = first; begin + 2 * period <= behind; ++begin) {
      if (nodes_before[begin + period] - nodes_before[begin] < 2) continue;
      std::size_t end = begin + period;
      while (end < behind && hashes[end] == hashes[end - period]) ++end;
      const Run run{begin, period, (end - begin) / period};
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

// Where nothing repeats (one layer), the stretch from the first to the last piece of several nodes counts as a single block.
Run whole_stretch(const std::vector<Piece>& pieces) {
  const auto several = [](const Piece& piece) { return piece.size() > 1; };
  const auto begin = std::find_if(pieces.begin(), pieces.end(), several);
  const auto end = std::find_if(pieces.rbegin(), pieces.rend(), several).base();
  if (begin == pieces.end()) return {};
  return {static_cast<std::size_t>(begin - pieces.begin()), static_cast<std::size_t>(end - begin), 1};
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
  const std::vector<Piece> pieces = cut(graph, forward_nodes(graph));
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
        block.nodes.insert(block.nodes.end(), piece.begin(), piece.end());
        block.cuts.push_back(piece.back());
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
