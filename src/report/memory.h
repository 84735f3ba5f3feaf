// Where the memory and the time of a run went.
#pragma once

#include <string>

#include "report/reported_run.h"

namespace plimsoll {

std::string memory_html(const ReportedRun& reported);
std::string time_html(const ReportedRun& reported);

}  // namespace plimsoll
