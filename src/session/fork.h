// A new run that takes the state of another run's checkpoint.
#pragma once

#include <filesystem>

#include "base/error.h"
#include "config/config.h"
#include "weights/progress.h"

namespace plimsoll {

// The counters of the checkpoint. An error about it offers an older one.
Progress read_parent(const std::filesystem::path& checkpoint);
// E-CKPT-FORMAT: its model computes another function of the weights, or its state is of another optimizer.
void check_fork(const Config& config, const Progress& parent, const std::filesystem::path& checkpoint);
// Adds the newest older checkpoint of its run to an error about the files of this one.
void offer_older_parent(Error& error, const std::filesystem::path& checkpoint);

}  // namespace plimsoll
