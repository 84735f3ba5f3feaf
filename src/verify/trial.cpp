#include "verify/trial.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"

namespace plimsoll::verification {
namespace {

constexpr const char* kCommand = "verify";

// "E-CODE  [where] message" without its code.
std::string text_after_code(const Trial& trial) {
  const std::string& said = trial.said;
  return said.substr(std::min(said.find_first_not_of(' ', trial.code().size()), said.size()));
}

Error broken_by(const Trial& trial) {
  if (trial.code().empty()) {
    return data_error("E-CHILD", kCommand, fmt::format("a training was ended from outside, with {}", trial.exit_code),
                      "one that runs to its end", {trial.command});
  }
  return data_error(trial.code(), kCommand, text_after_code(trial), "files and a system that last until verify is done",
                    {trial.command});
}

Error not_launched(const Trial& trial) {
  return {ErrorKind::environment, ExitCode::configuration,
          trial.code(),           kCommand,
          text_after_code(trial), "Open MPI 4.1, and a build with it",
          {trial.command}};
}

}  // namespace

CheckedTrials::CheckedTrials(const Config& config, std::filesystem::path folder, std::function<void(const std::string&)> tell)
    : trials_(config, {std::move(folder), kCommand}, std::move(tell)) {}

Trial CheckedTrials::run(const TrialRequest& request) {
  Trial trial = trials_.run(request);
  if (trial.end() == Trial::End::broken) throw broken_by(trial);
  if (trial.said.starts_with("E-RANK-MPI") || trial.said.starts_with("E-RANK-LAUNCH")) throw not_launched(trial);
  return trial;
}

nlohmann::json CheckedTrials::plan(const TrialRequest& request) { return trials_.plan(request); }

}  // namespace plimsoll::verification
