#include "program/copies.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll {

Copies::Copies(const Graph& graph, const PerValue<Operand>& operands, const Residency& residency, std::int64_t rounds,
               std::uint32_t first_event)
    : graph_(graph),
      operands_(operands),
      page_(residency.active() ? page_elements(graph, residency) : 0),
      rounds_(rounds),
      next_event_(first_event) {}

// Calls body(here, rest, number) for each piece: its operands in tier 0 and on its own tier, and its number.
template <class Body>
void Copies::for_pieces(const Node& node, Body&& body) const {
  const bool has_input_here = node.op->transfer != Transfer::fetch;
  const Operand& here = operands_[has_input_here ? node.inputs[0] : node.outputs[0]];
  const Operand& rest = operands_[origin_of(graph_, node.outputs[0])];
  ensure(here.tier == 0 && rest.tier != 0 && here.bytes == rest.bytes, "lower", "a copy between what is no pair of places");
  std::uint32_t number = 0;
  const std::int64_t page = page_bytes(page_, graph_.values[rest.value].type.dtype).n;
  for (std::int64_t begin = 0; begin < here.bytes.n; begin += page) {
    const Bytes bytes{std::min(page, here.bytes.n - begin)};
    body(Operand{here.tier, here.arena, here.offset + Bytes{begin}, bytes, here.value},
         Operand{rest.tier, rest.arena, rest.offset + Bytes{begin}, bytes, rest.value}, number++);
  }
}

void Copies::append(const Node& node, std::vector<Instruction>& to) {
  const Transfer transfer = node.op->transfer;
  const bool inward = transfer == Transfer::fetch || transfer == Transfer::fetched;
  const bool adds = brings_what_is_written(graph_, node);
  if (adds && rounds_ == 1) return;  // always written, never added to
  const Bytes place = operands_[transfer == Transfer::fetch ? node.outputs[0] : node.inputs[0]].offset;
  if (transfer == Transfer::fetch || transfer == Transfer::store) {
    const std::uint32_t first = in_flight_[place] = next_event_;
    for_pieces(node, [&](const Operand& here, const Operand& rest, std::uint32_t number) {
      to.push_back(inward ? StartCopy{rest, here, here, first + number, adds}
                          : StartCopy{here, rest, here, first + number, adds});
      ++next_event_;
    });
    return;
  }
  const auto first = in_flight_.find(place);
  ensure(first != in_flight_.end(), "lower", "a wait for a copy that has not begun");
  for_pieces(node, [&](const Operand& here, const Operand& rest, std::uint32_t number) {
    to.push_back(WaitCopy{here, first->second + number, adds, {}, rest.tier});
  });
  in_flight_.erase(first);
}

}  // namespace plimsoll
