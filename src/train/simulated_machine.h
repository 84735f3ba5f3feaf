// The machine of `--machine sim`: stated figures of a modest computer, the same everywhere, for plans that do not depend on where
// they are made.
#pragma once

#include "train/machine_file.h"

namespace plimsoll {

MachineRecord simulated_machine(int threads);

}  // namespace plimsoll
