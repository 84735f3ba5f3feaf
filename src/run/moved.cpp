#include "run/moved.h"

#include <algorithm>
#include <map>

namespace plimsoll {

Moved moved_by(const Program& program, std::size_t tier) {
  Moved moved;
  std::map<Bytes, Bytes> pieces;  // several copies move the same one
  for (const auto* section : program.sections()) {
    for (const Instruction& instruction : *section) {
      const auto* copy = std::get_if<StartCopy>(&instruction);
      if (copy == nullptr) continue;
      const Operand& stored = copy->to.tier != 0 ? copy->to : copy->from;
      if (stored.tier != tier) continue;
      moved.events = std::max<std::size_t>(moved.events, copy->event + 1);
      pieces.emplace(stored.offset, stored.bytes);
    }
  }
  for (const auto& [offset, bytes] : pieces) moved.pieces.push_back({offset, bytes});
  return moved;
}

}  // namespace plimsoll
