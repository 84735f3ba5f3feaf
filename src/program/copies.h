// Instructions for copies of whole values between tiers (graph/transfer.h), in the pieces of the value's storage.
#pragma once

#include <map>
#include <vector>

#include "program/program.h"

namespace plimsoll {

class Copies {
 public:
  // For one section; events are numbered from `first_event`.
  Copies(const Graph& graph, const PerValue<Operand>& operands, const Residency& residency, std::int64_t rounds,
         std::uint32_t first_event);

  // Called for the transfers of the section in order.
  void append(const Node& node, std::vector<Instruction>& to);

 private:
  template <class Body>
  void for_pieces(const Node& node, Body&& body) const;

  const Graph& graph_;
  const PerValue<Operand>& operands_;
  std::int64_t page_, rounds_;  // page: elements
  std::uint32_t next_event_;
  std::map<Bytes, std::uint32_t> in_flight_;  // event of the first piece, by the copy's offset in the arena
};

}  // namespace plimsoll
