// The rates of a folder's disk while kernels run: reading and writing at once, reading alone, and the slowdown of the kernels.
// Measured once per file system, engine and number of threads, and kept in the cache (measure/measure_store). The measured file
// takes from 9 to 87 MiB, within the budget if that has room for it.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "device/disk/disk_budget.h"
#include "plan/machine.h"

namespace plimsoll {

// Adds the tier "disk" after the others, with the links to and from it, unless the machine has one already. Transfers use
// io_uring if the policy and the system allow it, else threads. Each engine is reported, measured and kept separately.
void add_disk_tier(Machine& machine, const DiskBudget& disk, TransferPolicy policy, const std::filesystem::path& cache,
                   const std::function<void(const std::string&)>& say);

// Adds the tier without measuring: with rates from the cache, else kAssumedDiskRate each way. Returns true for measured rates.
bool add_known_disk_tier(Machine& machine, const DiskBudget& disk, TransferPolicy policy, const std::filesystem::path& cache);
inline constexpr double kAssumedDiskRate = 500e6, kAssumedDiskLatency = 100e-6;  // of a modest solid-state disk

// The measured bytes per second of writing to the folder's disk, by the engine that has them in the cache.
std::optional<double> known_disk_rate(const std::filesystem::path& folder, int threads, const std::filesystem::path& cache);

// The folder, or its parent while it does not exist, on the same disk.
std::filesystem::path existing_folder(const std::filesystem::path& folder);

}  // namespace plimsoll
