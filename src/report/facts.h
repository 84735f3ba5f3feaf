// The facts of a run: its data, the settings that differ from its parent's or from the defaults, checkpoints, machine, and the
// command that repeats it.
#pragma once

#include <string>

#include "report/reported_run.h"

namespace plimsoll {

std::string data_html(const ReportedRun& reported);
std::string settings_html(const ReportedRun& reported);
std::string checkpoints_html(const ReportedRun& reported);
std::string machine_html(const ReportedRun& reported);

// `plimsoll train RUN/config.resolved.toml --set train.micro_batch=8 --run RUN-again`
std::string repeating_command(const ReportedRun& reported);
std::string command_html(const ReportedRun& reported);

}  // namespace plimsoll
