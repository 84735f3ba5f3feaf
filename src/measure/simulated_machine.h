// Simulated machines. `--machine sim`: fixed figures of a modest device with a host and a disk, for the same plans on every
// computer. `--device sim` can run: this computer with a part of its memory as that of a device.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "device/link_rates.h"
#include "measure/machine_file.h"

namespace plimsoll {

MachineRecord simulated_machine(int threads);

// Kernels run in the arena of a device, which alone counts as its memory; the rest of the process counts for the host. The link
// between them is measured once and kept in the cache.
void simulate_device(Machine& machine, const std::filesystem::path& cache, const std::function<void(const std::string&)>& say);
// Limits the links to the given rates.
void limit_links(Machine& machine, const LinkRates& rates);

}  // namespace plimsoll
