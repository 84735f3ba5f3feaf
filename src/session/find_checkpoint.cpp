#include "session/find_checkpoint.h"

#include <fmt/core.h>

#include <limits>
#include <utility>

#include "formats/file.h"
#include "prepare/epochs.h"
#include "records/best_weights.h"
#include "records/checkpoints.h"
#include "records/run_folder.h"
#include "session/resume.h"
#include "train/improvement.h"
#include "weights/checkpoint.h"

namespace plimsoll {
namespace {

Error no_checkpoint(const RunFolder& folder, std::string message, Remedies remedies) {
  return data_error("E-CKPT-MISSING", folder.checkpoint().string(), std::move(message), "a run that was saved or interrupted",
                    std::move(remedies));
}

// The watch after the evaluations in the records, as far as `last` updates.
ImprovementWatch watch_of(const Config& config, const RunFolder& folder, std::int64_t last) {
  ImprovementWatch watch(config);
  folder.read_evaluations([&](const Evaluation& evaluation) {
    if (evaluation.update <= last) watch.see(evaluation);
  });
  return watch;
}

std::int64_t best_update(const Config& config, const RunFolder& folder, const RunRemedies& remedies) {
  const ImprovementWatch watch = watch_of(config, folder, std::numeric_limits<std::int64_t>::max());
  if (!watch.best()) throw no_checkpoint(folder, "no evaluation of this run has been recorded", {remedies.resume()});
  return watch.best()->update;
}

const KeptCheckpoint& chosen(const std::vector<KeptCheckpoint>& kept, const std::string& name, const Config& config,
                             const RunFolder& folder, const RunRemedies& remedies) {
  if (name.empty() || name == "last") return kept.back();
  const bool best = name == "best";
  const std::string update = best ? std::to_string(best_update(config, folder, remedies)) : name;
  std::string there;
  for (const KeptCheckpoint& each : kept) {
    if (std::to_string(each.update) == update) return each;
    there += fmt::format("{}{}", there.empty() ? "" : ", ", each.update);
  }
  Error error = no_checkpoint(folder, fmt::format("there is no checkpoint of update {}; there are those of {}", update, there),
                              {remedies.resume({{"command.checkpoint", kept.back().update}})});
  if (best) error.expected += "; save.keep_best keeps those of the best evaluations";
  if (best && is_there(folder.best())) error.expected += fmt::format(", and {} has the weights alone", folder.best().string());
  throw error;
}

// E-RUN-STOPPED if the run ended for lack of improvement, and would again.
void check_stopped(const Config& config, const RunFolder& folder, const RunRemedies& remedies, std::int64_t updates) {
  if (!run_stopped(folder.path())) return;
  const ImprovementWatch watch = watch_of(config, folder, updates);
  if (!watch.stops()) return;
  const std::int64_t enough = watch.stalled() + in_updates(config.stop.patience, run_length(config));
  throw config_error("E-RUN-STOPPED", folder.path().string(),
                     fmt::format("it ended at update {} because its evaluations did not improve; the best is {}", updates,
                                 best_summary(*watch.best())),
                     "another [stop], with which the run goes on", {remedies.resume({{"stop.patience", enough}})});
}

}  // namespace

ResumedFrom find_checkpoint(const Config& config, const RunFolder& folder, const CheckpointRequest& request) {
  const RunRemedies remedies(config, folder);
  const std::vector<KeptCheckpoint> kept = checkpoints_in(folder.path());
  const bool diverged = is_there(folder.diverged()), goes_on = config.train.on_divergence == OnDivergence::proceed;
  if (kept.empty() && !(diverged && goes_on)) {
    if (diverged) {
      throw no_checkpoint(folder, "the only checkpoint is that of the diverged state", {remedies.go_on(), remedies.slower(0)});
    }
    throw no_checkpoint(folder, "there is no checkpoint: nothing of this run has been saved",
                        {run_diverged(folder.path()) ? remedies.slower(0) : remedies.again()});
  }
  const auto read = [&](const std::filesystem::path& checkpoint) {
    try {
      return read_progress(checkpoint);
    } catch (Error& error) {
      offer_older(error, checkpoint, folder, remedies);
      throw;
    }
  };
  ResumedFrom from;
  if (!kept.empty()) {
    from.path = chosen(kept, request.name, config, folder, remedies).path;
    from.goes_back = from.path != kept.back().path;
    from.progress = read(from.path);
  }
  if (diverged && goes_on && request.name.empty()) {
    Progress then = read(folder.diverged());
    if (kept.empty() || then.updates > from.progress.updates) {
      from.progress = std::move(then);
      from.path = folder.diverged();
      from.notes.push_back(
          fmt::format("note: the run continues from {}, at update {}", from.path.string(), from.progress.updates));
    }
  }
  for (const std::string& line : check_resumed_batch(config, from.progress, from.path)) from.notes.push_back("note: " + line);
  for (const std::string& line : check_resumed_origin(config, from.progress, folder.path(), request.forced)) {
    from.notes.push_back("note: " + line);
    from.model_changed = true;
  }
  check_stopped(config, folder, remedies, from.progress.updates);
  return from;
}

std::optional<KeptCheckpoint> older_than(const std::filesystem::path& checkpoint, const std::filesystem::path& run,
                                         const Error& error) {
  if (error.kind == ErrorKind::internal ||
      (!error.code.starts_with("E-CKPT-") && !error.code.starts_with("E-FORMAT-") && !error.code.starts_with("E-IO-")))
    return {};
  if (error.code == "E-CKPT-FROZEN" || !error.where.starts_with(checkpoint.string())) return {};
  std::optional<KeptCheckpoint> older;
  for (const KeptCheckpoint& each : checkpoints_in(run)) {
    std::error_code ignored;
    if (std::filesystem::equivalent(each.path, checkpoint, ignored)) break;
    if (each.update > 0) older = each;
  }
  return older;
}

void offer_older(Error& error, const std::filesystem::path& checkpoint, const RunFolder& folder, const RunRemedies& remedies) {
  const std::optional<KeptCheckpoint> older = older_than(checkpoint, folder.path(), error);
  if (!older) return;
  error.expected += fmt::format("; the checkpoint of update {} is older", older->update);
  error.remedies = {remedies.resume({{"command.checkpoint", older->update}})};
}

}  // namespace plimsoll
