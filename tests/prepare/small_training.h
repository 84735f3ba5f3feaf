// A configuration in a scratch folder, and the input of planning for it on a machine of round figures.
#pragma once

#include <string>

#include "data/token_files.h"
#include "plan/small_models.h"
#include "prepare/planning.h"

namespace plimsoll {

inline constexpr const char* kSmallTraining = R"(seed = 7
[model]
kind = "gpt2"
layers = 2
width = 64
heads = 4
context = 32
vocab = 256
[data]
train = "text.txt"
[train]
effective_batch = 12
)";

struct SmallTraining {
  ScratchFolder folder;
  RunSettings settings;
  Config config;

  explicit SmallTraining(const std::string& more = "") {
    write_raw(folder / "run.toml", kSmallTraining + more);
    settings = {folder / "run.toml", read_settings(folder / "run.toml"), {}};
    config = load_config(settings);
  }
  PlanningInput input() const {
    PlanningInput input;
    input.request = plan_request(config);
    input.budget = plan_budget(config);
    input.machine.machine = round_machine();
    input.source = ConfigSource{settings};
    return input;
  }
};

}  // namespace plimsoll
