#include "session/run_remedies.h"

#include <fmt/core.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/shell.h"
#include "config/config_keys.h"
#include "config/config_rules.h"
#include "formats/new_folder.h"
#include "formats/weight_files.h"
#include "records/checkpoints.h"
#include "records/run_folder.h"
#include "weights/checkpoint.h"

namespace plimsoll {
namespace {

// A new run with the settings of the run in `folder`.
Remedy new_run(const RunFolder& folder, const std::filesystem::path& run, const Changes& changes) {
  Changes all{{"command.run", run.string()}};
  all.insert(all.end(), changes.begin(), changes.end());
  return Remedy::of_command("train " + shell_quoted((folder.path() / "config.resolved.toml").string()), std::move(all));
}

// True if the checkpoint can be read and has at most so many updates.
bool is_good(const std::filesystem::path& checkpoint, std::int64_t good_updates) {
  try {
    return read_progress(checkpoint).updates <= good_updates;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Remedy RunRemedies::resume(const Changes& changes) const {
  Changes all{{"command.run", folder_.path().string()}, {"command.resume"}};
  all.insert(all.end(), changes.begin(), changes.end());
  return Remedy::of_command("train CONFIG", std::move(all));
}

Remedy RunRemedies::begin_beside(const Changes& changes) const {
  return new_run(folder_, new_folder_beside(folder_.path()), changes);
}

Remedy RunRemedies::again() const { return folder_.has_updates() ? begin_beside({}) : new_run(folder_, folder_.path(), {}); }

Remedy RunRemedies::other_data() const {
  const std::vector<std::filesystem::path>& names = config_.data.train.names;
  const std::string data = names.size() == 1 ? names.front().string() : config_key("data.train").text(config_);
  Changes changes{{"data.train", data}};
  if (!config_.data.labels.empty()) changes.emplace_back("data.labels", config_key("data.labels").text(config_));
  if (has_weights(folder_.weights())) changes.emplace_back("model.init", std::filesystem::absolute(folder_.weights()).string());
  return begin_beside(changes);
}

Remedy RunRemedies::slower(std::int64_t good_updates) const {
  const double tried = config_.optimizer.learning_rate, usual = usual_learning_rate(config_.optimizer.kind);
  const Change rate("optimizer.learning_rate", fmt::format("{:g}", tried > 1000 * usual ? usual : tried / 10));
  const std::vector<KeptCheckpoint> kept = checkpoints_in(folder_.path());
  for (std::size_t i = kept.size(); i-- > 0;) {
    if (!is_good(kept[i].path, good_updates)) continue;
    return i + 1 == kept.size() ? resume({rate}) : resume({{"command.checkpoint", kept[i].update}, rate});
  }
  return begin_beside({rate});
}

}  // namespace plimsoll
