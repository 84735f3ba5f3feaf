#include <fmt/core.h>

#include <filesystem>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/say.h"
#include "formats/atomic_file.h"
#include "report/page.h"

namespace plimsoll {
namespace {

// A page in the place of a run's own files would change the run.
void refuse_records(const std::filesystem::path& file, const std::vector<std::filesystem::path>& runs) {
  for (const std::filesystem::path& run : runs) {
    std::error_code error;
    const std::filesystem::path relative =
        std::filesystem::weakly_canonical(file, error).lexically_relative(std::filesystem::weakly_canonical(run, error));
    if (relative.empty() || *relative.begin() == ".." || file.extension() == ".html") continue;
    throw config_error("E-USAGE", "--out", fmt::format("{} lies in the run and is no page", file.string()),
                       "a name that ends with .html, or a place outside of the run");
  }
}

}  // namespace

int run_report(const ReportArguments& arguments) {
  const std::vector<std::filesystem::path> runs(arguments.runs.begin(), arguments.runs.end());
  if (runs.size() > 1 && arguments.out.empty()) {
    throw config_error("E-USAGE", "plimsoll report", "several runs are given, and no file for their page", "--out FILE",
                       {Remedy::of_command("report RUN RUN", {{"command.out", "report.html"}})});
  }
  const std::filesystem::path named = arguments.out.empty() ? runs.front() / kReportFile : std::filesystem::path(arguments.out);
  const std::filesystem::path file = output_file(named);
  refuse_records(file, runs);
  write_file_atomically(file, report_page(runs));
  print_text(named.string() + "\n");
  return 0;
}

}  // namespace plimsoll
