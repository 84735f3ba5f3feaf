// The learning curves of a run, its evaluations as a table, and the strip of stability.
#pragma once

#include <span>
#include <string>

#include "report/reported_run.h"

namespace plimsoll {

std::string curves_html(const ReportedRun& reported);
std::string stability_html(const ReportedRun& reported);
// The losses of several runs over each other. `why`: the validation losses are not comparable for this reason; else empty.
std::string overlaid_html(std::span<const ReportedRun> runs, const std::string& why);

}  // namespace plimsoll
