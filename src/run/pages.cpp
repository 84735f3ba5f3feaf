#include "run/pages.h"

#include <algorithm>

namespace plimsoll {

std::unique_ptr<PageFile> open_pages(const Program& program, const std::filesystem::path& folder) {
  if (program.stored.n == 0) return nullptr;
  PageFile::Sizes sizes{program.stored, kTransfers, kTransferStaging};
  std::vector<PageFile::Piece> pieces;
  for (const auto* section : {&program.micro, &program.update}) {
    for (const Instruction& instruction : *section) {
      const auto* copy = std::get_if<StartCopy>(&instruction);
      if (copy == nullptr) continue;
      sizes.events = std::max<std::size_t>(sizes.events, copy->event + 1);
      if (copy->to.tier != 0) pieces.push_back({copy->to.offset, copy->to.bytes});
    }
  }
  return std::make_unique<PageFile>(folder, sizes, std::move(pieces));
}

}  // namespace plimsoll
