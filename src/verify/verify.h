// Tests a configuration on its own model and data: gradients against finite differences, all splits of the batch, all kinds of
// plans, the chosen precision against fp32. Controls check that each test notices its error.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "config/config.h"
#include "data/data_set.h"
#include "verify/verdict.h"

namespace plimsoll::verification {

// `data`: training data; a short part of it is used. `folder` holds the runs (a few times the bytes of model and state) and the
// used data, so that the commands of checks can be run again. `tell` gets each run, `hear` each check.
Verdict verify_training(const Config& config, const DataSet& data, const std::filesystem::path& folder,
                        const std::function<void(const std::string&)>& tell, const std::function<void(const Check&)>& hear);

}  // namespace plimsoll::verification
