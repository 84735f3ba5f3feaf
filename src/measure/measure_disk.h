// How fast a folder's disk takes and gives pages while kernels run, both at once, how fast it gives them while nothing goes out,
// and what kernels lose beside it; measured once for each file system, engine and number of threads, and kept in the cache
// (measure/measure_store). The file that is measured takes from 9 to 87 MiB, within the budget where that holds so much.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "device/disk/disk_budget.h"
#include "plan/machine.h"

namespace plimsoll {

// Adds the tier "disk" behind the others, with the links to and from it, unless the machine has one already.
// Transfers go through io_uring where the policy and the system allow it, else on threads: said, measured and kept each for
// itself.
void add_disk_tier(Machine& machine, const DiskBudget& disk, TransferPolicy policy, const std::filesystem::path& cache,
                   const std::function<void(const std::string&)>& say);

// The same without measuring anything: what the cache has, else kAssumedDiskRate each way. Whether it was measured.
bool add_known_disk_tier(Machine& machine, const DiskBudget& disk, TransferPolicy policy, const std::filesystem::path& cache);
inline constexpr double kAssumedDiskRate = 500e6, kAssumedDiskLatency = 100e-6;  // of a modest solid-state disk

// The folder, or its parent while it does not exist: on the same disk once it is made.
std::filesystem::path existing_folder(const std::filesystem::path& folder);

}  // namespace plimsoll
