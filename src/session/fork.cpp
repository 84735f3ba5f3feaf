#include "session/fork.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <vector>

#include "config/config_keys.h"
#include "records/checkpoints.h"
#include "session/find_checkpoint.h"
#include "weights/checkpoint.h"
#include "weights/origin.h"

namespace plimsoll {

Progress read_parent(const std::filesystem::path& checkpoint) {
  try {
    return read_progress(checkpoint);
  } catch (Error& error) {
    offer_older_parent(error, checkpoint);
    throw;
  }
}

void check_fork(const Config& config, const Progress& parent, const std::filesystem::path& checkpoint) {
  const auto refuse = [&](const std::string& what) {
    throw data_error("E-CKPT-FORMAT", checkpoint.string(), what, "a checkpoint of this model and optimizer",
                     {Change("model.init", run_of_checkpoint(checkpoint).string())});
  };
  if (!parent.origin.model.empty()) {
    const std::vector<std::string> lines = model_differences(parent.origin.model, text_of_model(config.model.config));
    if (!lines.empty()) refuse(fmt::format("its model computes another function: {}", fmt::join(lines, "; ")));
  }
  const std::string_view optimizer = optimizer_name(config.optimizer.kind);
  if (!parent.optimizer.empty() && parent.optimizer != optimizer) {
    refuse(fmt::format("its state is of the optimizer {}, and optimizer.name is {}", parent.optimizer, optimizer));
  }
}

void offer_older_parent(Error& error, const std::filesystem::path& checkpoint) {
  const std::filesystem::path parent = run_of_checkpoint(checkpoint);
  const std::optional<KeptCheckpoint> older = older_than(checkpoint, parent, error);
  if (!older) return;
  error.expected += fmt::format("; the checkpoint of update {} is older", older->update);
  error.remedies = {Change("command.from", (parent / std::to_string(older->update)).string())};
}

}  // namespace plimsoll
