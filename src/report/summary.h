// The top of the page: the state of the run, a sentence of verdict, six numbers, warnings.
#pragma once

#include <string>

#include "report/reported_run.h"

namespace plimsoll {

// "best validation loss 1.412 at update 420 of 500, rising since: weights_best"
std::string verdict_of(const ReportedRun& reported);
std::string summary_html(const ReportedRun& reported);
// The state as a coloured word.
std::string state_html(const Run& run);

}  // namespace plimsoll
