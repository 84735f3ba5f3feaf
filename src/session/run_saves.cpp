#include "session/run_saves.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "formats/file.h"
#include "formats/weight_files.h"
#include "records/best_weights.h"
#include "records/checkpoints.h"
#include "records/run_folder.h"
#include "session/session_ranks.h"
#include "train/trainer.h"
#include "weights/checkpoint.h"
#include "weights/manifest.h"

namespace plimsoll {

namespace {

Bytes checkpoint_files_bytes(const std::filesystem::path& checkpoint) {
  Bytes bytes = file_bytes(checkpoint / kManifestFile);
  for (int rank = 0; is_there(checkpoint / state_file_name(rank)); ++rank)
    bytes += file_bytes(checkpoint / state_file_name(rank));
  return bytes;
}

}  // namespace

void RunSaves::begin() { saved_time_ = seconds_now(); }

bool RunSaves::is_due(std::int64_t update) const {
  const SaveInterval every = config_.save.every;
  if (again_at_ > 0) return seconds_now() >= again_at_;
  if (retention_of(config_).keeps(update)) return true;
  if (every.seconds == 0) return every.updates > 0 && update % every.updates == 0;
  return seconds_now() - saved_time_ >= static_cast<double>(every.seconds);
}

void RunSaves::save(Trainer& trainer) {
  if (saved_at_ == trainer.progress().updates) return;
  std::optional<Error> not_written;  // a failed event must not cost the progress
  const double start = seconds_now();
  ranks_.on_first([&] {
    follow_folder();
    try {
      emit_(Saving{});
    } catch (const Error& error) {
      not_written = error;
    }
    remove_surplus(/*another=*/true);
    folder_.make_folder("checkpoints");
  });
  const std::filesystem::path checkpoint = checkpoint_path(folder_.path(), trainer.progress().updates);
  ranks_.patiently([&] { trainer.save_checkpoint_to(checkpoint); });
  ranks_.on_first([&] {
    try {
      read_back(checkpoint);
    } catch (const Error& error) {
      folder_.follow();
      remove_checkpoint(checkpoint_path(folder_.path(), trainer.progress().updates));
      throw data_error("E-IO-WRITE", error.where, "the new checkpoint cannot be read back: " + error.message,
                       "a disk that keeps what is written");
    }
  });
  saved_at_ = trainer.progress().updates;
  saved_time_ = seconds_now();
  again_at_ = 0;
  ranks_.on_first([&] {
    remove_surplus(/*another=*/false);
    if (not_written) throw *not_written;
    emit_(Saved{saved_at_, checkpoint_files_bytes(checkpoint), saved_time_ - start});
  });
}

void RunSaves::try_to_save(Trainer& trainer) {
  constexpr double kPause = 60;  // seconds
  try {
    save(trainer);
  } catch (const Error& error) {
    if (!error.code.starts_with("E-IO-") && error.code != "E-FORMAT-SAFETENSORS") throw;
    ranks_.on_first([&] {
      const std::filesystem::path before = folder_.path();
      follow_folder();
      const bool moved = folder_.path() != before;  // meanwhile
      again_at_ = seconds_now() + (moved ? 0 : kPause);
      emit_(NotSaved{trainer.progress().updates, "the checkpoint", error});
    });
  }
}

void RunSaves::keep_ranked(Trainer& trainer) {
  if (!improvement_.ranks(trainer.progress().updates)) return;
  try_to_save(trainer);
  ranks_.on_first([&] { remove_surplus(/*another=*/false); });
}

void RunSaves::remove_surplus(bool another) {
  follow_folder();
  const std::vector<KeptCheckpoint> kept = checkpoints_in(folder_.path());
  std::vector<std::int64_t> updates;
  for (const KeptCheckpoint& each : kept) updates.push_back(each.update);
  for (const std::int64_t update : surplus(retention_of(config_), updates, improvement_.ranking(), another)) {
    remove_checkpoint(std::ranges::find(kept, update, &KeptCheckpoint::update)->path);
  }
}

void RunSaves::save_best(Trainer& trainer) {
  if (!keeps_best_weights(config_)) return;
  ranks_.on_first([&] { write_best(trainer, trainer.progress().micro_batch); });
}

// A full disk does not end the run: the older best weights stay.
void RunSaves::write_best(Trainer& trainer, std::int64_t micro_batch) {
  const Evaluation& best = *improvement_.best();
  follow_folder();
  const BestWeights about{best, micro_batch, trainer.rounds_weights()};
  try {
    trainer.save_weights_to(folder_.best(), {.beside = folder_.weights(), .note = kBestFile, .note_text = best_text(about)});
  } catch (const Error& error) {
    if (error.code != "E-IO-WRITE") throw;
    follow_folder();
    return emit_(NotSaved{best.update, "the best weights", error});
  }
  emit_(BestSaved{best, weights_in(folder_.best())});
}

void RunSaves::take_up_best(Trainer& trainer, std::int64_t micro_batch) {
  ranks_.on_first([&] { check_best(trainer, micro_batch); });
}

// True if the evaluation is in the records, was the best of its time, and is compared with the present best.
bool RunSaves::was_best(const Evaluation& then) const {
  ImprovementWatch watch(config_);
  bool was = false;
  folder_.read_evaluations([&](const Evaluation& each) {
    const bool better = watch.see(each);
    if (each.update == then.update && each.units == then.units && bits_hex(each.loss) == bits_hex(then.loss)) was = better;
  });
  return was && improvement_.best() && improvement_.best()->units == then.units;
}

void RunSaves::check_best(Trainer& trainer, std::int64_t micro_batch) {
  const std::optional<BestWeights> there = read_best(folder_.best());
  const std::optional<Evaluation>& best = improvement_.best();
  const bool same = there && best && there->evaluation.update == best->update && there->evaluation.units == best->units &&
                    bits_hex(there->evaluation.loss) == bits_hex(best->loss);
  if (there && !(was_best(there->evaluation) && keeps_best_weights(config_))) {
    emit_(Said{fmt::format("note: the best weights so far ({}) are not those of this part of the run any more; they are in {}",
                           best_summary(there->evaluation), folder_.set_best_aside().string())});
  }
  if (!keeps_best_weights(config_) || same || !best) return;
  if (best->update == trainer.progress().updates) return write_best(trainer, micro_batch);
  emit_(Said{fmt::format("note: the weights of the best evaluation so far ({}) are not kept", best_summary(*best))});
}

std::string RunSaves::keep_diverged(Trainer& trainer) {
  try {
    ranks_.on_first([&] {
      follow_folder();
      folder_.make_folder("diverged");
    });
    ranks_.patiently([&] { trainer.save_checkpoint_to(folder_.path() / "diverged"); });
    return fmt::format("; the state is in {}", (folder_.path() / "diverged").string());
  } catch (const Error& error) {
    return fmt::format("; the state could not be saved ({})", error.message);
  }
}

void RunSaves::follow_folder() {
  if (folder_.follow())
    emit_(Said{fmt::format("note: the folder of the run is now {}; the run continues there", folder_.path().string())});
}

}  // namespace plimsoll
