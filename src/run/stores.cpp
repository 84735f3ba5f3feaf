#include "run/stores.h"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "base/error.h"
#include "device/host_store.h"
#include "device/limited_store.h"
#include "run/moved.h"

namespace plimsoll {
namespace {

void demand_io_uring() {
  const std::string refusal = io_uring_refusal();
  if (refusal.empty()) return;
  throw Error(ErrorKind::environment, ExitCode::configuration, "E-PLAN-CHANGED", "disk tier",
              fmt::format("the plan moves pages through io_uring, which is refused now: {}", refusal),
              "the engine of the plan; threads need more bytes", {Change("plan.transfers", "threads")});
}

}  // namespace

Stores::Stores(const Program& program, const Plan& plan, const std::filesystem::path& folder, const LinkLimits& limits)
    : stores_(plan.tiers.size()) {
  std::vector<std::shared_ptr<LinkLimit>> links;
  for (std::size_t tier = 1; tier < plan.tiers.size(); ++tier) {
    if (limits[tier - 1] > 0) links.push_back(std::make_shared<LinkLimit>(LinkLimit{limits[tier - 1]}));
    const Bytes size = program.stored[tier];
    if (size.n == 0) continue;
    const Moved moved = moved_by(program, tier);
    if (plan.tiers[tier].kind == TierKind::disk) {
      if (plan.transfers == TransferEngine::io_uring) demand_io_uring();
      const PageFile::Sizes sizes{size, kTransfers, kTransferStaging, moved.events, plan.transfers};
      auto file = std::make_unique<PageFile>(folder, sizes, moved.pieces);
      disk_ = file.get();
      stores_[tier] = std::move(file);
    } else {
      stores_[tier] = std::make_unique<HostStore>(size, moved.events, moved.pieces);
    }
    if (!links.empty()) stores_[tier] = std::make_unique<LimitedStore>(std::move(stores_[tier]), links, moved.events);
  }
}

CpuDevice::Stores Stores::all() const {
  CpuDevice::Stores all;
  for (std::size_t tier = 0; tier < stores_.size(); ++tier) all[tier] = stores_[tier].get();
  return all;
}

}  // namespace plimsoll
