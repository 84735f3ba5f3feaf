#include "program/stream.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {
namespace {

struct Piece {
  NodeId node;
  std::size_t update = 0;  // which of the updates
  std::int64_t begin = 0, elements = 0;
};

class Stream {
 public:
  Stream(const Graph& graph, const PerValue<Operand>& operands, const Paging& paging, const std::vector<NodeId>& updates)
      : graph_(graph), operands_(operands), slots_(static_cast<std::size_t>(paging.slots)) {
    for (const NodeId id : updates) states_ = std::max(states_, streamed_inputs(graph, graph.nodes[id]).size());
    room_ = operands[graph.nodes[updates.front()].pages];
    page_ = room_.bytes.n / static_cast<std::int64_t>(sizeof(float) * slots_ * states_);
    for (std::size_t i = 0; i < updates.size(); ++i) {
      const std::int64_t elements = graph.values[graph.nodes[updates[i]].inputs[0]].type.shape.elements();
      for (std::int64_t begin = 0; begin < elements; begin += page_) {
        pieces_.push_back({updates[i], i, begin, std::min(page_, elements - begin)});
      }
    }
    instructions_.resize(updates.size());
  }

  std::vector<std::vector<Instruction>> run() {
    for (std::size_t i = 0; i < std::min(slots_, pieces_.size()); ++i) start_in(i);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      now_ = pieces_[i].update;
      wait(i, false);
      update(i);
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
      instructions_[now_].push_back(StartCopy{from, filled(place, from), place, done});
    });
  }

  void update(std::size_t piece) {
    const Node& node = node_of(piece);
    RunKernel run;
    run.node = pieces_[piece].node;
    run.range = pieces_[piece].elements;
    for (const ValueId value : node.inputs) {
      const bool whole = graph_.values[value].type != graph_.values[node.inputs[0]].type;
      run.inputs.push_back(whole ? operands_[value] : range(operands_[value], piece));
    }
    const std::vector<std::size_t> inputs = streamed_inputs(graph_, node);
    for (std::size_t state = 0; state < inputs.size(); ++state) {
      run.inputs[inputs[state]] = filled(room(piece, state, node.inputs[inputs[state]]), run.inputs[inputs[state]]);
    }
    for (const NodeAlias& alias : aliases_of(graph_, node)) {
      for (std::size_t i = 0; i < run.inputs.size(); ++i) {
        if (node.inputs[i] == alias.input) run.outputs.push_back(run.inputs[i]);
      }
    }
    instructions_[now_].push_back(std::move(run));
  }

  void start_out(std::size_t piece) {
    for_states(piece, [&](std::size_t state, ValueId value) {
      const Operand to = range(operands_[value], piece), place = room(piece, state, value);
      const std::uint32_t done = event(piece, state, true);
      instructions_[now_].push_back(StartCopy{filled(place, to), to, place, done});
    });
  }

  void wait(std::size_t piece, bool out) {
    for_states(piece, [&](std::size_t state, ValueId value) {
      instructions_[now_].push_back(WaitCopy{room(piece, state, value), event(piece, state, out)});
    });
  }

  const Graph& graph_;
  const PerValue<Operand>& operands_;
  std::size_t slots_, states_ = 0;
  Operand room_;
  std::int64_t page_ = 0;  // elements
  std::vector<Piece> pieces_;
  std::vector<std::vector<Instruction>> instructions_;  // of each update
  std::size_t now_ = 0;                                 // the update that they are for
};

}  // namespace

std::vector<std::vector<Instruction>> stream_updates(const Graph& graph, const PerValue<Operand>& operands, const Paging& paging,
                                                     const std::vector<NodeId>& updates) {
  if (updates.empty()) return {};
  return Stream(graph, operands, paging, updates).run();
}

}  // namespace plimsoll
