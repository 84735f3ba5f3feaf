// Proves a configuration on its own model and data: gradients against finite differences, every way to split the batch, every
// way to plan it, the chosen precision against fp32; and that each of these would notice what it is there for.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "config/config.h"
#include "data/source.h"
#include "verify/verdict.h"

namespace plimsoll::verification {

// `data`: what the configuration trains on, of which a short part is used. `folder` takes the runs, a few times the bytes of the
// model and its state, and keeps that part of the data, so that the commands of checks can be run again. `tell` hears each run,
// `hear` each check.
Verdict verify_training(const Config& config, const TokenFile& data, const std::filesystem::path& folder,
                        const std::function<void(const std::string&)>& tell, const std::function<void(const Check&)>& hear);

}  // namespace plimsoll::verification
