// Following of a run by another process, over stops and resumes.
#pragma once

#include <filesystem>
#include <functional>

#include "records/run_reader.h"

namespace plimsoll {

// Calls `look` with the present run now and every `seconds` seconds, until a call has seen the run done or failed. Returns that
// run. A folder that a process is about to train in, without run.json yet, is waited for; any other folder without a run is
// E-RUN-MISSING, also one that goes away.
Run follow_run(const std::filesystem::path& folder, double seconds, const std::function<void(const Run&)>& look);

}  // namespace plimsoll
