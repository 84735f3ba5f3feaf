// The next commands of a user: to resume a run, to use its weights.
#pragma once

#include <string>

#include "base/remedy.h"
#include "cli/commands.h"
#include "config/config.h"
#include "records/run_folder.h"

namespace plimsoll {

class RunCommands {
 public:
  // References outlive this.
  RunCommands(const TrainArguments& arguments, const RunFolder& folder, const Config& config)
      : arguments_(arguments), folder_(folder), config_(config) {}

  // "plimsoll train CONFIG --run DIR --resume", with the options of this command that a run does not keep.
  Remedy resume() const;
  std::string weights() const { return folder_.weights().string(); }
  // The command that uses the weights, for a shell.
  std::string use() const;

 private:
  const TrainArguments& arguments_;
  const RunFolder& folder_;
  const Config& config_;
};

}  // namespace plimsoll
