// The checkpoint from which a run resumes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "records/checkpoints.h"
#include "session/run_remedies.h"
#include "weights/progress.h"

namespace plimsoll {

class RunFolder;

struct CheckpointRequest {
  std::string name;     // an update, "best", or "last"; empty: the last
  bool forced = false;  // permits changes that alter results
};

struct ResumedFrom {
  std::filesystem::path path;
  Progress progress;
  bool goes_back = false;      // there are later checkpoints
  bool model_changed = false;  // since the run began, and permitted
  std::vector<std::string> notes;
};

// A diverged run that continues takes its diverged state if that is later. E-CKPT-MISSING; E-CKPT-CORRUPT and E-CKPT-FORMAT offer
// an older one; E-RESUME for another model; E-RUN-STOPPED if the run ended for lack of improvement, and would again.
ResumedFrom find_checkpoint(const Config& config, const RunFolder& folder, const CheckpointRequest& request);

// The newest checkpoint of the run that is older than this one, if the error is about its files.
std::optional<KeptCheckpoint> older_than(const std::filesystem::path& checkpoint, const std::filesystem::path& run,
                                         const Error& error);
// Adds the newest older checkpoint to an error about the files of this one.
void offer_older(Error& error, const std::filesystem::path& checkpoint, const RunFolder& folder, const RunRemedies& remedies);

}  // namespace plimsoll
