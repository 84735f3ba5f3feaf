// The saves of a running training: checkpoints and their retention, the best weights, a diverged state. A full disk does not end
// the run: the save is tried again. With several ranks, all of them call these members; the first writes all but its pieces of
// the checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "config/config.h"
#include "session/events.h"
#include "train/improvement.h"

namespace plimsoll {

class RunFolder;
class SessionRanks;
class Trainer;

class RunSaves {
 public:
  // All references outlive the object. `emit` reports events.
  RunSaves(const Config& config, RunFolder& folder, const ImprovementWatch& improvement, const SessionRanks& ranks,
           std::function<void(const Event&)> emit)
      : config_(config), folder_(folder), improvement_(improvement), ranks_(ranks), emit_(std::move(emit)) {}

  // The folder has a checkpoint of that update.
  void has(std::int64_t update) { saved_at_ = update; }
  // The interval between saves begins.
  void begin();
  // True if a checkpoint is to be written after that update.
  bool is_due(std::int64_t update) const;
  // Writes a checkpoint, unless there is one of this update. E-IO-WRITE and other errors of the disk.
  void save(Trainer& trainer);
  // The same, but an error of the disk is an event, and another attempt is due a minute later.
  void try_to_save(Trainer& trainer);
  // Keeps the checkpoint of the present update if it is one of the best.
  void keep_ranked(Trainer& trainer);
  // Saves the weights as those of the best evaluation, if the run keeps these.
  void save_best(Trainer& trainer);
  // The best weights of a resumed run belong to an evaluation in its records. Others are set aside: the run was killed after that
  // evaluation, or went back. `micro_batch`: of the evaluation at the present update.
  void take_up_best(Trainer& trainer, std::int64_t micro_batch);
  // Keeps the state of a training that has diverged. Returns words for the error.
  std::string keep_diverged(Trainer& trainer);
  // Follows a folder that was moved, and reports that. E-IO-WRITE if it is gone.
  void follow_folder();

 private:
  void write_best(Trainer& trainer, std::int64_t micro_batch);
  void check_best(Trainer& trainer, std::int64_t micro_batch);
  // Removes checkpoints that are not to be kept. `another`: one more is about to be written.
  void remove_surplus(bool another);

  const Config& config_;
  RunFolder& folder_;
  const ImprovementWatch& improvement_;
  const SessionRanks& ranks_;
  std::function<void(const Event&)> emit_;
  std::int64_t saved_at_ = -1;  // updates of the newest checkpoint; -1: none
  double saved_time_ = 0;       // seconds_now() at the last save, or at the start of updates
  double again_at_ = 0;         // seconds_now() of another attempt at a save that failed; 0: none
};

}  // namespace plimsoll
