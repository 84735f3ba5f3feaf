// Machines that nobody has. That of `--machine sim`: stated figures of a modest device with a host and a disk behind it, the same
// everywhere, for plans that do not depend on where they are made. And `--device sim`, which runs: this computer with a part of
// its memory taken for that of a device.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "device/link_rates.h"
#include "measure/machine_file.h"

namespace plimsoll {

MachineRecord simulated_machine(int threads);

// Kernels run in the arena of a device, which alone counts as its memory; the process beside it is the host's. What lies between
// is measured once, for a file in the cache.
void simulate_device(Machine& machine, const std::filesystem::path& cache, const std::function<void(const std::string&)>& say);
// Links are no faster than asked for.
void limit_links(Machine& machine, const LinkRates& rates);

}  // namespace plimsoll
