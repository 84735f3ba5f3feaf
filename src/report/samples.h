// The answers to held-out prompts over a run.
#pragma once

#include <string>

#include "report/reported_run.h"

namespace plimsoll {

// Empty without answers.
std::string samples_html(const ReportedRun& reported);

}  // namespace plimsoll
