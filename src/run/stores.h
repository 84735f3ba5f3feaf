// The tiers past the first of a program, each with the pieces that its copies move: the memory of a host, a disk.
#pragma once

#include <array>
#include <filesystem>
#include <memory>

#include "device/disk/page_file.h"
#include "program/program.h"
#include "run/cpu_device.h"

namespace plimsoll {

// Bytes per second that the links of a simulated device let through each way, by link as in plan/tiers/lanes.h; 0: as they can.
using LinkLimits = PerLink<double>;

class Stores {
 public:
  // One of the plan's name "disk" is a file in the folder. Throws E-PLAN-CHANGED where the planned engine is refused now, since
  // another one needs other bytes, and what PageFile and HostStore throw.
  Stores(const Program& program, const Plan& plan, const std::filesystem::path& folder, const LinkLimits& limits = {});

  CpuDevice::Stores all() const;
  const TierStore* at(std::size_t tier) const { return stores_.at(tier).get(); }
  // Null where nothing rests on a disk.
  PageFile* disk() const { return disk_; }

 private:
  std::array<std::unique_ptr<TierStore>, kMostTiers> stores_;
  PageFile* disk_ = nullptr;  // one of those
};

}  // namespace plimsoll
