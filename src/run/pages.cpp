#include "run/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"

namespace plimsoll {
namespace {

void demand_io_uring() {
  const std::string refusal = io_uring_refusal();
  if (refusal.empty()) return;
  throw Error(ErrorKind::environment, ExitCode::configuration, "E-PLAN-CHANGED", "disk tier",
              fmt::format("the plan moves pages through io_uring, which is refused now: {}", refusal),
              "what the plan was made with; threads need more bytes", {"--set plan.transfers=threads"});
}

}  // namespace

std::unique_ptr<PageFile> open_pages(const Program& program, const std::filesystem::path& folder, TransferEngine engine) {
  if (program.stored.n == 0) return nullptr;
  if (engine == TransferEngine::io_uring) demand_io_uring();
  PageFile::Sizes sizes{program.stored, kTransfers, kTransferStaging, 0, engine};
  std::map<Bytes, Bytes> pieces;  // by offset; several copies move the same one
  for (const auto* section : {&program.micro, &program.update, &program.evaluate, &program.generate}) {
    for (const Instruction& instruction : *section) {
      const auto* copy = std::get_if<StartCopy>(&instruction);
      if (copy == nullptr) continue;
      sizes.events = std::max<std::size_t>(sizes.events, copy->event + 1);
      const Operand& stored = copy->to.tier != 0 ? copy->to : copy->from;
      pieces.emplace(stored.offset, stored.bytes);
    }
  }
  std::vector<PageFile::Piece> list;
  for (const auto& [offset, bytes] : pieces) list.push_back({offset, bytes});
  return std::make_unique<PageFile>(folder, sizes, std::move(list));
}

}  // namespace plimsoll
