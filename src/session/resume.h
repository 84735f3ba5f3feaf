// The configuration of a resumed run: its own settings and budgets, unless they are given anew. OnResume of each key permits
// changes; every difference is reported.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/run_settings.h"
#include "weights/progress.h"

namespace plimsoll {

// As the command line has it.
struct ResumeRequest {
  std::filesystem::path file;  // CONFIG; empty: the run's own settings
  std::vector<Setting> typed;
  bool force = false;  // permits changes of results
};

struct ResumedConfig {
  Config config;         // its notes tell each difference from what the run began with
  RunSettings settings;  // what the run has from here on
};

// Reads config.resolved.toml and settings.json of the run's folder, and writes nothing. E-RESUME (exit 2) where something changes
// that must not.
ResumedConfig resume_config(const std::filesystem::path& run, const ResumeRequest& request,
                            const Bf16Speed& bf16 = bf16_speed_here());

// E-RESUME: the files of the model compute something else of given weights than those with which the run began, or the adapter of
// adapter.init is another one. With `force` the former is told in the lines that are returned.
std::vector<std::string> check_resumed_origin(const Config& config, const Progress& progress, const std::filesystem::path& run,
                                              bool force);

// E-RESUME, E-CKPT-FORMAT: the batch is that of the checkpoint.
void check_resumed_batch(const Config& config, const Progress& progress, const std::filesystem::path& run,
                         const std::filesystem::path& checkpoint);

}  // namespace plimsoll
