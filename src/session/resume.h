// The configuration of a resumed run: its own settings and budgets, unless new ones are given. OnResume of each key permits
// changes; every difference is reported.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/run_settings.h"
#include "weights/progress.h"

namespace plimsoll {

class RunFolder;

// The request of the command line.
struct ResumeRequest {
  std::filesystem::path file;  // CONFIG; empty: the settings of the run
  std::vector<Setting> typed;
  bool force = false;  // permits changes that alter results
};

struct ResumedConfig {
  Config config;         // its notes list the differences from the start of the run
  RunSettings settings;  // the settings of the run from here on
};

// Reads config.resolved.toml and settings.json of the run's folder, and writes nothing. E-RESUME (exit 2) for changes that are
// not permitted.
ResumedConfig resume_config(const std::filesystem::path& run, const ResumeRequest& request,
                            const Bf16Speed& bf16 = bf16_speed_here());

// E-RESUME: the model's files now compute a different function of the weights, or adapter.init is another adapter. With `force`
// the former becomes the returned lines.
std::vector<std::string> check_resumed_origin(const Config& config, const Progress& progress, const std::filesystem::path& run,
                                              bool force);

// E-CKPT-FORMAT if an update has other samples than in the checkpoint. Returns a line if micro-batches are others.
std::vector<std::string> check_resumed_batch(const Config& config, const Progress& progress,
                                             const std::filesystem::path& checkpoint);

// E-RESUME-DATA if the checkpoint has trained on other data. The configuration has the vocabulary of the opened data.
void check_resumed_data(const Config& config, const Progress& progress, const std::string& data_hash, const RunFolder& folder);

}  // namespace plimsoll
