// Tests that several ranks train as one process does: gradients, losses, parameters, statistics; the same bits in two runs; bytes
// in memory and between ranks as planned. Controls check that these tests notice a wrong sum over ranks.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "config/config.h"
#include "data/data_set.h"
#include "verify/verdict.h"

namespace plimsoll::verification {

// As verify_training(). E-RANK-MPI (exit 2) if this build or this machine cannot start ranks.
Verdict verify_ranks(const Config& config, const DataSet& data, int ranks, const std::filesystem::path& folder,
                     const std::function<void(const std::string&)>& tell, const std::function<void(const Check&)>& hear);

}  // namespace plimsoll::verification
