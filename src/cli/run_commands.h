// The next commands of a user: to resume a run, to begin it anew, to use its weights. Each can be pasted into a shell.
#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "cli/commands.h"
#include "config/config.h"
#include "records/run_folder.h"
#include "session/next_commands.h"

namespace plimsoll {

class RunCommands final : public NextCommands {
 public:
  // References outlive this.
  RunCommands(const TrainArguments& arguments, const RunFolder& folder, const Config& config)
      : arguments_(arguments), folder_(folder), config_(config) {}

  // "plimsoll train CONFIG --run DIR --resume", with the options of this command that a run does not keep.
  std::string resume() const override;
  std::string begin_beside(std::span<const Change> changes) const override;
  std::string again() const override;
  std::string other_data() const override;
  std::string go_on() const override;
  std::string slower(bool good) const override;
  std::string weights() const { return folder_.weights().string(); }
  // The command that uses the weights.
  std::string use() const;

 private:
  std::string begin(const std::filesystem::path& run) const;

  const TrainArguments& arguments_;
  const RunFolder& folder_;
  const Config& config_;
};

}  // namespace plimsoll
