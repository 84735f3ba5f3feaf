#include "program/stream.h"

#include <algorithm>
#include <iterator>

#include "base/ceil_div.h"

namespace plimsoll {
namespace {

// A range of a node's streamed inputs, which fills a slot.
struct Piece {
  std::size_t number = 0;  // index of the nodes
  NodeRange range;
  std::vector<StreamedInput> states;  // the streamed inputs present in this pass
};

class Stream {
 public:
  Stream(const Graph& graph, const PerValue<Operand>& operands, const Residency& residency, std::int64_t rounds,
         const std::vector<StreamedNodes>& nodes, std::uint32_t first_event)
      : graph_(graph),
        operands_(operands),
        rounds_(rounds),
        nodes_(nodes),
        first_event_(first_event),
        slots_(static_cast<std::size_t>(residency.pages.slots)),
        page_(page_elements(graph, residency)) {
    ring_ = operands[graph.nodes[nodes.front().front().node].pages];
    std::vector<NodeId> streaming;
    for (const StreamedNodes& each : nodes) streaming.push_back(each.front().node);
    slot_bytes_ = slot_bytes(graph, streaming);
    for (std::size_t i = 0; i < nodes.size(); ++i) add_pieces(i);
    instructions_.resize(nodes.size());
  }

  std::vector<std::vector<Instruction>> run() {
    for (std::size_t i = 0; i < std::min(slots_, pieces_.size()); ++i) start(i, Way::in);
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      now_ = pieces_[i].number;
      wait(i, Way::in);
      work(i);
      start(i, Way::out);
      if (i == 0 || i - 1 + slots_ >= pieces_.size()) continue;
      wait(i - 1, Way::out);
      start(i - 1 + slots_, Way::in);
    }
    for (std::size_t i = pieces_.size() - std::min(slots_, pieces_.size()); i < pieces_.size(); ++i) wait(i, Way::out);
    return std::move(instructions_);
  }

 private:
  enum class Way : std::uint8_t { in, out };

  // Updated inputs are present in the last pass only.
  void add_pieces(std::size_t number) {
    const Node& node = graph_.nodes[nodes_[number].front().node];
    const std::vector<StreamedInput> inputs = streamed_inputs(graph_, node);
    const std::int64_t all = graph_.values[node.inputs[inputs.front().input]].type.shape.elements();
    const std::int64_t elements = range_elements(graph_, node, page_);
    const int passes = ranges_of(graph_, node).passes;
    slot_ = std::max(slot_, elements);
    states_ = std::max(states_, inputs.size());
    for (int pass = 0; pass < passes; ++pass) {
      std::vector<StreamedInput> states;
      std::copy_if(inputs.begin(), inputs.end(), std::back_inserter(states),
                   [&](const StreamedInput& state) { return !state.changes || pass + 1 == passes; });
      for (std::int64_t begin = 0; begin < all; begin += elements) {
        pieces_.push_back({number, {begin, std::min(elements, all - begin), pass}, states});
      }
    }
  }

  // The first replica; all have the same streamed inputs.
  const Node& node_of(std::size_t piece) const { return graph_.nodes[nodes_[pieces_[piece].number].front().node]; }

  std::int64_t element_bytes(ValueId value) const { return size_of(graph_.values[value].type.dtype); }
  ValueId state_of(std::size_t piece, std::size_t state) const {
    return node_of(piece).inputs[pieces_[piece].states[state].input];
  }

  // The room of a state in the slot of the piece. The states of a slot lie one after the other.
  Operand place(std::size_t piece, std::size_t state) const {
    Bytes before = slot_bytes_ * static_cast<std::int64_t>(piece % slots_);
    for (std::size_t i = 0; i < state; ++i) before += Bytes{element_bytes(state_of(piece, i))};
    const ValueId value = state_of(piece, state);
    const Bytes bytes{pieces_[piece].range.elements * element_bytes(value)};
    return {0, 0, ring_.offset + before * slot_, bytes, operands_[value].value};
  }

  Operand range(const Operand& whole, std::size_t piece) const {
    const NodeRange& range = pieces_[piece].range;
    const std::int64_t size = element_bytes(whole.value);
    return {whole.tier, whole.arena, whole.offset + Bytes{range.begin * size}, Bytes{range.elements * size}, whole.value};
  }

  // Calls body(memory, room, rest, event, adds) for each page of the transfer, in or out.
  template <class Body>
  void for_pages(std::size_t piece, Way way, Body&& body) const {
    const std::int64_t pages = ceil_div(slot_, page_);
    const std::vector<StreamedInput>& states = pieces_[piece].states;
    for (std::size_t i = 0; i < states.size(); ++i) {
      if (way == Way::out ? !states[i].changes : rounds_ == 1 && states[i].begins) continue;
      const Operand here = place(piece, i), rest = range(operands_[state_of(piece, i)], piece);
      const auto number = static_cast<std::int64_t>(piece % slots_ * states_ + i);
      const std::int64_t size = element_bytes(state_of(piece, i));
      for (std::int64_t page = 0; page * page_ * size < here.bytes.n; ++page) {
        const Bytes begin{page * page_ * size}, room = std::min(Bytes{page_ * size}, Bytes{slot_ * size} - begin);
        const auto part = [&](const Operand& of, Bytes bytes) {
          return Operand{of.tier, of.arena, of.offset + begin, bytes, of.value};
        };
        const Bytes bytes = std::min(room, here.bytes - begin);
        const std::int64_t event = 2 * (number * pages + page) + (way == Way::out ? 1 : 0);
        body(part(here, bytes), part(here, room), part(rest, bytes), first_event_ + static_cast<std::uint32_t>(event),
             way == Way::in && states[i].begins);
      }
    }
  }

  void start(std::size_t piece, Way way) {
    for_pages(piece, way, [&](const Operand& here, const Operand& room, const Operand& rest, std::uint32_t event, bool adds) {
      instructions_[now_].push_back(way == Way::in ? StartCopy{rest, here, room, event, adds, ring_}
                                                   : StartCopy{here, rest, room, event, adds, ring_});
    });
  }

  void wait(std::size_t piece, Way way) {
    for_pages(piece, way, [&](const Operand&, const Operand& room, const Operand& rest, std::uint32_t event, bool adds) {
      instructions_[now_].push_back(WaitCopy{room, event, adds, ring_, rest.tier});
    });
  }

  void work(std::size_t piece) {
    for (const RunKernel& run : nodes_[pieces_[piece].number]) instructions_[now_].push_back(kernel(run, piece));
  }

  // Operands that are no ranges are whole; those absent in this pass are empty.
  RunKernel kernel(RunKernel run, std::size_t piece) const {
    const Node& node = graph_.nodes[run.node];
    run.range = pieces_[piece].range;
    for (const ValueId value : node.inputs) run.inputs.push_back(operands_[value]);
    for (const ValueId value : node.outputs) run.outputs.push_back(operands_[value]);
    const std::vector<std::size_t> ranged = ranges_of(graph_, node).inputs;
    for (const std::size_t input : ranged) {
      run.inputs[input] = run.inputs[input].tier == 0 ? range(run.inputs[input], piece) : Operand{};
    }
    for (std::size_t i = 0; i < pieces_[piece].states.size(); ++i) {
      run.inputs[pieces_[piece].states[i].input] = place(piece, i);
    }
    for (const Alias& alias : aliases_of(*node.op, node.attributes)) {
      const bool is_range = std::find(ranged.begin(), ranged.end(), alias.input) != ranged.end();
      if (is_range) run.outputs[alias.output] = run.inputs[alias.input];
    }
    return run;
  }

  const Graph& graph_;
  const PerValue<Operand>& operands_;
  std::int64_t rounds_;
  const std::vector<StreamedNodes>& nodes_;
  std::uint32_t first_event_;
  std::size_t slots_, states_ = 0;
  std::int64_t page_, slot_ = 0;  // elements of a transfer, and of one state in a slot
  Bytes slot_bytes_;              // of a slot, per element
  Operand ring_;
  std::vector<Piece> pieces_;
  std::vector<std::vector<Instruction>> instructions_;  // by node
  std::size_t now_ = 0;                                 // the present node
};

}  // namespace

std::vector<std::vector<Instruction>> stream_nodes(const Graph& graph, const PerValue<Operand>& operands,
                                                   const Residency& residency, std::int64_t rounds,
                                                   const std::vector<StreamedNodes>& nodes, std::uint32_t first_event) {
  return Stream(graph, operands, residency, rounds, nodes, first_event).run();
}

}  // namespace plimsoll
