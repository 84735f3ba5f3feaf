// The page of a run, or of several over each other: one HTML file that needs no network and no script.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace plimsoll {

inline constexpr const char* kReportFile = "report.html";  // in the folder of a run

// E-RUN-MISSING if a folder is no run.
std::string report_page(std::span<const std::filesystem::path> runs);

}  // namespace plimsoll
