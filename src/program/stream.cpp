#include "program/stream.h"

#include <algorithm>

#include "base/ceil_div.h"
#include "base/error.h"

namespace plimsoll {
namespace {

constexpr std::int64_t kSize = sizeof(float);

// A range of what a node streams, which fills a slot.
struct Piece {
  std::size_t number = 0;  // which of the nodes
  NodeRange range;
};

class Stream {
 public:
  Stream(const Graph& graph, const PerValue<Operand>& operands, const Paging& paging, std::int64_t accumulation,
         const std::vector<RunKernel>& nodes, std::uint32_t first_event)
      : graph_(graph),
        operands_(operands),
        accumulation_(accumulation),
        nodes_(nodes),
        first_event_(first_event),
        slots_(static_cast<std::size_t>(paging.slots)),
        page_(page_elements(graph, paging)) {
    ring_ = operands[graph.nodes[nodes.front().node].pages];
    for (std::size_t i = 0; i < nodes.size(); ++i) add_pieces(i);
    instructions_.resize(nodes.size());
  }

  std::vector<std::vector<Instruction>> run() {
    for (std::size_t i = 0; i < std::min(slots_, pieces_.size()); ++i) start_in(i);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      now_ = pieces_[i].number;
      wait_in(i);
      work(i);
      start_out(i);
      if (i == 0 || i - 1 + slots_ >= pieces_.size()) continue;
      wait_out(i - 1);
      start_in(i - 1 + slots_);
    }
    for (std::size_t i = pieces_.size() - std::min(slots_, pieces_.size()); i < pieces_.size(); ++i) wait_out(i);
    return std::move(instructions_);
  }

 private:
  // One of the inputs that stream.
  struct State {
    std::size_t number = 0, input = 0;  // among them, among the inputs
    ValueId value;
    bool changes = false;
  };

  void add_pieces(std::size_t number) {
    const Node& node = graph_.nodes[nodes_[number].node];
    const std::vector<std::size_t> inputs = streamed_inputs(graph_, node);
    const std::int64_t all = graph_.values[node.inputs[inputs.front()]].type.shape.elements();
    const std::int64_t elements = range_elements(graph_, node, page_);
    slot_ = std::max(slot_, elements);
    states_ = std::max(states_, inputs.size());
    for (int pass = 0; pass < ranges_of(graph_, node).passes; ++pass) {
      for (std::int64_t begin = 0; begin < all; begin += elements) {
        pieces_.push_back({number, {begin, std::min(elements, all - begin), pass}});
      }
    }
  }

  const Node& node_of(std::size_t piece) const { return graph_.nodes[nodes_[pieces_[piece].number].node]; }

  // What changes is here in the last pass only.
  std::vector<State> states_of(std::size_t piece) const {
    const Node& node = node_of(piece);
    const std::vector<NodeAlias> aliases = aliases_of(graph_, node);
    const bool last = pieces_[piece].range.pass + 1 == ranges_of(graph_, node).passes;
    std::vector<State> states;
    for (const std::size_t input : streamed_inputs(graph_, node)) {
      const ValueId value = node.inputs[input];
      const bool changes =
          std::any_of(aliases.begin(), aliases.end(), [&](const NodeAlias& alias) { return alias.input == value; });
      if (last || !changes) states.push_back({states.size(), input, value, changes});
    }
    return states;
  }

  // On the first micro-step of a window an accumulator is written.
  bool adds(std::size_t piece, const State& state) const {
    const auto& written = nodes_[pieces_[piece].number].accumulators;
    return std::find(written.begin(), written.end(), state.input) != written.end();
  }
  bool comes_in(std::size_t piece, const State& state) const { return accumulation_ > 1 || !adds(piece, state); }

  Operand place(std::size_t piece, const State& state) const {
    const std::size_t number = piece % slots_ * states_ + state.number;
    const Bytes slot{slot_ * kSize}, bytes{pieces_[piece].range.elements * kSize};
    return {0, 0, ring_.offset + slot * static_cast<std::int64_t>(number), bytes, operands_[state.value].value};
  }

  Operand range(const Operand& whole, std::size_t piece) const {
    const NodeRange& range = pieces_[piece].range;
    return {whole.tier, whole.arena, whole.offset + Bytes{range.begin * kSize}, Bytes{range.elements * kSize}, whole.value};
  }

  // Calls body(memory, its room, where it rests, event) for each page of a state in its slot.
  template <class Body>
  void for_pages(std::size_t piece, const State& state, bool out, Body&& body) const {
    const Operand here = place(piece, state), rest = range(operands_[state.value], piece);
    const std::int64_t pages = ceil_div(slot_, page_);
    const std::size_t number = piece % slots_ * states_ + state.number;
    for (std::int64_t page = 0; page * page_ * kSize < here.bytes.n; ++page) {
      const Bytes begin{page * page_ * kSize}, room = std::min(Bytes{page_ * kSize}, Bytes{slot_ * kSize} - begin);
      const auto part = [&](const Operand& of, Bytes bytes) {
        return Operand{of.tier, of.arena, of.offset + begin, bytes, of.value};
      };
      const Bytes bytes = std::min(room, here.bytes - begin);
      const std::int64_t event = 2 * (static_cast<std::int64_t>(number) * pages + page) + (out ? 1 : 0);
      body(part(here, bytes), part(here, room), part(rest, bytes), first_event_ + static_cast<std::uint32_t>(event));
    }
  }

  void start_in(std::size_t piece) {
    for (const State& state : states_of(piece)) {
      if (!comes_in(piece, state)) continue;
      for_pages(piece, state, false, [&](const Operand& here, const Operand& room, const Operand& rest, std::uint32_t event) {
        instructions_[now_].push_back(StartCopy{rest, here, room, event, adds(piece, state), ring_});
      });
    }
  }

  void wait_in(std::size_t piece) {
    for (const State& state : states_of(piece)) {
      if (!comes_in(piece, state)) continue;
      for_pages(piece, state, false, [&](const Operand&, const Operand& room, const Operand&, std::uint32_t event) {
        instructions_[now_].push_back(WaitCopy{room, event, adds(piece, state), ring_});
      });
    }
  }

  void start_out(std::size_t piece) {
    for (const State& state : states_of(piece)) {
      if (!state.changes) continue;
      for_pages(piece, state, true, [&](const Operand& here, const Operand& room, const Operand& rest, std::uint32_t event) {
        instructions_[now_].push_back(StartCopy{here, rest, room, event, false, ring_});
      });
    }
  }

  void wait_out(std::size_t piece) {
    for (const State& state : states_of(piece)) {
      if (!state.changes) continue;
      for_pages(piece, state, true, [&](const Operand&, const Operand& room, const Operand&, std::uint32_t event) {
        instructions_[now_].push_back(WaitCopy{room, event, false, ring_});
      });
    }
  }

  // Operands that are no ranges are whole; those that are not here in this pass are empty.
  void work(std::size_t piece) {
    const Node& node = node_of(piece);
    RunKernel run = nodes_[pieces_[piece].number];
    run.range = pieces_[piece].range;
    const std::vector<std::size_t> ranged = ranges_of(graph_, node).inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const Operand& whole = operands_[node.inputs[i]];
      const bool is_range = std::find(ranged.begin(), ranged.end(), i) != ranged.end();
      run.inputs.push_back(!is_range ? whole : whole.tier == 0 ? range(whole, piece) : Operand{});
    }
    for (const State& state : states_of(piece)) run.inputs[state.input] = place(piece, state);
    for (const ValueId output : node.outputs) run.outputs.push_back(operands_[output]);
    for (const Alias& alias : aliases_of(*node.op, node.attributes)) {
      const bool is_range = std::find(ranged.begin(), ranged.end(), alias.input) != ranged.end();
      if (is_range) run.outputs[alias.output] = run.inputs[alias.input];
    }
    instructions_[now_].push_back(std::move(run));
  }

  const Graph& graph_;
  const PerValue<Operand>& operands_;
  std::int64_t accumulation_;
  const std::vector<RunKernel>& nodes_;
  std::uint32_t first_event_;
  std::size_t slots_, states_ = 0;
  std::int64_t page_, slot_ = 0;  // elements: of a transfer; of one state in a slot
  Operand ring_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<Instruction>> instructions_;  // of each node
  std::size_t now_ = 0;                                 // the node that they are for
};

}  // namespace

std::vector<std::vector<Instruction>> stream_nodes(const Graph& graph, const PerValue<Operand>& operands, const Paging& paging,
                                                   std::int64_t accumulation, const std::vector<RunKernel>& nodes,
                                                   std::uint32_t first_event) {
  return Stream(graph, operands, paging, accumulation, nodes, first_event).run();
}

}  // namespace plimsoll
