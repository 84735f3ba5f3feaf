// The tiers of a program past the first, each with the pieces of its copies: the memory of a host, a disk.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "device/disk/page_file.h"
#include "program/program.h"
#include "run/cpu_device.h"

namespace plimsoll {

// Limits of a simulated device's links in bytes per second and direction, by link as in plan/tiers/lanes.h; 0: no limit.
using LinkLimits = PerLink<double>;

class Stores {
 public:
  // A disk is a file in the folder. Throws E-PLAN-CHANGED if the planned engine is refused now (another engine needs other
  // bytes), and the errors of PageFile and HostStore.
  Stores(const Program& program, const Plan& plan, const std::filesystem::path& folder, const LinkLimits& limits = {});

  CpuDevice::Stores all() const;
  const TierStore* at(std::size_t tier) const { return stores_.at(tier).get(); }
  // Null if no value rests on a disk.
  PageFile* disk() const { return disk_; }

 private:
  std::vector<std::unique_ptr<TierStore>> stores_;  // by tier; null for a tier without data
  PageFile* disk_ = nullptr;                        // in stores_
};

}  // namespace plimsoll
