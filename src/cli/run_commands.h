// The commands that a user may type next: to go on with a run, to begin it anew, to use its weights. Each can be pasted.
#pragma once

#include <filesystem>
#include <string>

#include "cli/commands.h"
#include "config/config.h"
#include "records/run_folder.h"

namespace plimsoll {

class RunCommands {
 public:
  // References outlive this.
  RunCommands(const TrainArguments& arguments, const RunFolder& folder, const Config& config)
      : arguments_(arguments), folder_(folder), config_(config) {}

  // "plimsoll train CONFIG --run DIR --resume", with what else this command was told that a run does not keep.
  std::string resume() const;
  // The settings of this run in another folder beside it.
  std::string begin_beside() const;
  // In the same folder, unless it tells of updates.
  std::string again() const;
  // Another run on the data that there are now, from the weights of this one where they have been saved.
  std::string other_data() const;
  // Although it has diverged.
  std::string go_on() const;
  // With a lower rate, from the last checkpoint if that is `good`, or from the beginning in another folder. A checkpoint of the
  // updates in which the loss rose has diverged itself, whatever the rate is from there on.
  std::string slower(bool good) const;
  // What its weights are good for.
  std::string use() const;

 private:
  std::string begin(const std::filesystem::path& run) const;

  const TrainArguments& arguments_;
  const RunFolder& folder_;
  const Config& config_;
};

}  // namespace plimsoll
