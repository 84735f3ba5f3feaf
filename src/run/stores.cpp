#include "run/stores.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "device/host_store.h"
#include "device/limited_store.h"

namespace plimsoll {
namespace {

void demand_io_uring() {
  const std::string refusal = io_uring_refusal();
  if (refusal.empty()) return;
  throw Error(ErrorKind::environment, ExitCode::configuration, "E-PLAN-CHANGED", "disk tier",
              fmt::format("the plan moves pages through io_uring, which is refused now: {}", refusal),
              "what the plan was made with; threads need more bytes", {"--set plan.transfers=threads"});
}

// What the copies of a program move to and from a tier.
struct Moved {
  std::map<Bytes, Bytes> pieces;  // by offset; several copies move the same one
  std::size_t events = 0;

  std::vector<TierStore::Piece> list() const {
    std::vector<TierStore::Piece> list;
    for (const auto& [offset, bytes] : pieces) list.push_back({offset, bytes});
    return list;
  }
};

std::array<Moved, kMostTiers> moved_by(const Program& program) {
  std::array<Moved, kMostTiers> moved;
  for (const auto* section : {&program.micro, &program.update, &program.evaluate, &program.generate}) {
    for (const Instruction& instruction : *section) {
      const auto* copy = std::get_if<StartCopy>(&instruction);
      if (copy == nullptr) continue;
      const Operand& stored = copy->to.tier != 0 ? copy->to : copy->from;
      Moved& tier = moved.at(stored.tier);
      tier.events = std::max<std::size_t>(tier.events, copy->event + 1);
      tier.pieces.emplace(stored.offset, stored.bytes);
    }
  }
  return moved;
}

}  // namespace

Stores::Stores(const Program& program, const Plan& plan, const std::filesystem::path& folder, const LinkLimits& limits) {
  const std::array<Moved, kMostTiers> moved = moved_by(program);
  std::vector<std::shared_ptr<LinkLimit>> links;
  for (std::size_t tier = 1; tier < kMostTiers; ++tier) {
    if (limits[tier - 1] > 0) links.push_back(std::make_shared<LinkLimit>(LinkLimit{limits[tier - 1]}));
    const Bytes size = program.stored[tier];
    if (size.n == 0) continue;
    if (plan.tiers[tier] == "disk") {
      if (plan.transfers == TransferEngine::io_uring) demand_io_uring();
      const PageFile::Sizes sizes{size, kTransfers, kTransferStaging, moved[tier].events, plan.transfers};
      auto file = std::make_unique<PageFile>(folder, sizes, moved[tier].list());
      disk_ = file.get();
      stores_[tier] = std::move(file);
    } else {
      stores_[tier] = std::make_unique<HostStore>(size, moved[tier].events, moved[tier].list());
    }
    if (!links.empty()) stores_[tier] = std::make_unique<LimitedStore>(std::move(stores_[tier]), links, moved[tier].events);
  }
}

CpuDevice::Stores Stores::all() const {
  CpuDevice::Stores all{};
  for (std::size_t tier = 0; tier < all.size(); ++tier) all[tier] = stores_[tier].get();
  return all;
}

}  // namespace plimsoll
