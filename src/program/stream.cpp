#include "program/stream.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {
namespace {

struct Piece {
  NodeId node;
  std::size_t number = 0;  // which of the nodes
  std::int64_t begin = 0, elements = 0;
};

class Stream {
 public:
  Stream(const Graph& graph, const PerValue<Operand>& operands, const Paging& paging, const std::vector<RunKernel>& nodes)
      : graph_(graph), operands_(operands), nodes_(nodes), slots_(static_cast<std::size_t>(paging.slots)) {
    room_ = operands[graph.nodes[nodes.front().node].pages];
    page_ = page_elements(graph, paging);
    states_ = static_cast<std::size_t>(room_.bytes.n / (static_cast<std::int64_t>(sizeof(float)) * paging.slots * page_));
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::int64_t elements = graph.values[graph.nodes[nodes[i].node].inputs[0]].type.shape.elements();
      for (std::int64_t begin = 0; begin < elements; begin += page_) {
        pieces_.push_back({nodes[i].node, i, begin, std::min(page_, elements - begin)});
      }
    }
    instructions_.resize(nodes.size());
  }

  std::vector<std::vector<Instruction>> run() {
    for (std::size_t i = 0; i < std::min(slots_, pieces_.size()); ++i) start_in(i);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      now_ = pieces_[i].number;
      wait(i, false);
      work(i);
      start_out(i);
      if (i == 0 || i - 1 + slots_ >= pieces_.size()) continue;
      wait(i - 1, true);
      start_in(i - 1 + slots_);
    }
    for (std::size_t i = pieces_.size() - std::min(slots_, pieces_.size()); i < pieces_.size(); ++i) wait(i, true);
    return std::move(instructions_);
  }

 private:
  const Node& node_of(std::size_t piece) const { return graph_.nodes[pieces_[piece].node]; }

  // The room of one state in the piece's slot.
  Operand room(std::size_t piece, std::size_t state, ValueId value) const {
    const Bytes page{page_ * static_cast<std::int64_t>(sizeof(float))};
    const std::size_t place = piece % slots_ * states_ + state;
    return {0, 0, room_.offset + page * static_cast<std::int64_t>(place), page, operands_[value].value};
  }

  Operand range(const Operand& whole, std::size_t piece) const {
    constexpr std::int64_t kSize = sizeof(float);
    return {whole.tier, whole.arena, whole.offset + Bytes{pieces_[piece].begin * kSize}, Bytes{pieces_[piece].elements * kSize},
            whole.value};
  }

  static Operand filled(Operand room, const Operand& with) {
    room.bytes = with.bytes;
    return room;
  }

  std::uint32_t event(std::size_t piece, std::size_t state, bool out) const {
    return static_cast<std::uint32_t>(2 * (piece % slots_ * states_ + state) + (out ? 1 : 0));
  }

  template <class Body>
  void for_states(std::size_t piece, Body&& body) {
    const Node& node = node_of(piece);
    const std::vector<std::size_t> inputs = streamed_inputs(graph_, node);
    for (std::size_t state = 0; state < inputs.size(); ++state) body(state, node.inputs[inputs[state]]);
  }

  void start_in(std::size_t piece) {
    for_states(piece, [&](std::size_t state, ValueId value) {
      const Operand from = range(operands_[value], piece), place = room(piece, state, value);
      const std::uint32_t done = event(piece, state, false);
      instructions_[now_].push_back(StartCopy{from, filled(place, from), place, done, false, true});
    });
  }

  void work(std::size_t piece) {
    const Node& node = node_of(piece);
    RunKernel run = nodes_[pieces_[piece].number];
    run.range = pieces_[piece].elements;
    run.continues = pieces_[piece].begin > 0;
    for (const ValueId value : node.inputs) {
      const bool whole = graph_.values[value].type != graph_.values[node.inputs[0]].type;
      run.inputs.push_back(whole ? operands_[value] : range(operands_[value], piece));
    }
    const std::vector<std::size_t> inputs = streamed_inputs(graph_, node);
    for (std::size_t state = 0; state < inputs.size(); ++state) {
      run.inputs[inputs[state]] = filled(room(piece, state, node.inputs[inputs[state]]), run.inputs[inputs[state]]);
    }
    for (const ValueId output : node.outputs) run.outputs.push_back(operands_[output]);
    for (const NodeAlias& alias : aliases_of(graph_, node)) {
      for (std::size_t i = 0; i < run.inputs.size(); ++i) {
        if (node.inputs[i] != alias.input) continue;
        for (std::size_t j = 0; j < node.outputs.size(); ++j) {
          if (node.outputs[j] == alias.output) run.outputs[j] = run.inputs[i];
        }
      }
    }
    instructions_[now_].push_back(std::move(run));
  }

  // Only what the node changes goes back.
  bool changes(std::size_t piece, ValueId value) const {
    const std::vector<NodeAlias> aliases = aliases_of(graph_, node_of(piece));
    return std::any_of(aliases.begin(), aliases.end(), [&](const NodeAlias& alias) { return alias.input == value; });
  }

  void start_out(std::size_t piece) {
    for_states(piece, [&](std::size_t state, ValueId value) {
      if (!changes(piece, value)) return;
      const Operand to = range(operands_[value], piece), place = room(piece, state, value);
      const std::uint32_t done = event(piece, state, true);
      instructions_[now_].push_back(StartCopy{filled(place, to), to, place, done, false, true});
    });
  }

  void wait(std::size_t piece, bool out) {
    for_states(piece, [&](std::size_t state, ValueId value) {
      if (out && !changes(piece, value)) return;
      instructions_[now_].push_back(WaitCopy{room(piece, state, value), event(piece, state, out), false, true});
    });
  }

  const Graph& graph_;
  const PerValue<Operand>& operands_;
  const std::vector<RunKernel>& nodes_;
  std::size_t slots_, states_ = 0;
  Operand room_;
  std::int64_t page_ = 0;  // elements
  std::vector<Piece> pieces_;
  std::vector<std::vector<Instruction>> instructions_;  // of each node
  std::size_t now_ = 0;                                 // the node that they are for
};

}  // namespace

std::vector<std::vector<Instruction>> stream_nodes(const Graph& graph, const PerValue<Operand>& operands, const Paging& paging,
                                                   const std::vector<RunKernel>& nodes) {
  if (nodes.empty()) return {};
  return Stream(graph, operands, paging, nodes).run();
}

}  // namespace plimsoll
