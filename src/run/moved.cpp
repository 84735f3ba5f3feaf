#include "run/moved.h"

#include <algorithm>
#include <map>

namespace plimsoll {

Moved moved_by(const Program& program, std::size_t tier) {
  Moved moved;
  std::map<Bytes, Bytes> pieces;  // several copies may move the same piece
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

static Bytes blocks(Bytes piece) { return align_up(piece, TierStore::kPieceAlignment); }

Bytes read_by(const std::vector<Instruction>& section, std::size_t tier) {
  Bytes read;
  for (const Instruction& instruction : section) {
    const auto* copy = std::get_if<StartCopy>(&instruction);
    if (copy != nullptr && copy->from.tier == tier) read += blocks(copy->from.bytes);
  }
  return read;
}

Written written_by(const Program& program, const Graph& graph, std::size_t tier) {
  Written written;
  const std::vector<TierStore::Piece> pieces = moved_by(program, tier).pieces;
  for (const ValueId id : graph.parameters()) {
    const Operand& rests = program.operands[id];
    if (rests.tier != tier) continue;
    auto piece = std::ranges::lower_bound(pieces, rests.offset, {}, &TierStore::Piece::offset);
    for (; piece != pieces.end() && piece->offset < rests.offset + rests.bytes; ++piece) written.load += blocks(piece->bytes);
  }
  const auto add = [&](const std::vector<Instruction>& section, std::int64_t times) {
    for (const Instruction& instruction : section) {
      const auto* copy = std::get_if<StartCopy>(&instruction);
      if (copy != nullptr && copy->to.tier == tier) written.update += blocks(copy->to.bytes) * times;
    }
  };
  add(program.micro, program.rounds);
  add(program.update, 1);
  return written;
}

}  // namespace plimsoll
