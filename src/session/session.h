// One training from its configuration to its result: it prepares a plan, loads, makes the updates, decides when to evaluate, save
// and stop, and saves the weights. What happens is told to consumers; a session prints nothing, and what it writes itself are
// checkpoints and weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/run_settings.h"
#include "prepare/prepare.h"
#include "session/events.h"
#include "session/next_commands.h"
#include "train/divergence.h"
#include "train/group_watch.h"
#include "train/validation_watch.h"
#include "weights/progress.h"
#include "weights/weight_layout.h"

namespace plimsoll {

class Device;
class RunFolder;
class Trainer;
struct RunRoom;
struct TrainingGraph;

struct SessionRequest {
  RunSettings settings;    // that the configuration was made of
  PrepareOptions prepare;  // where things lie beside the folder of the run, which the session knows
  std::int64_t updates = 0;
  bool resumes = false;  // from the checkpoint in the folder
  bool forced = false;   // although what changes results has changed
  bool audit = false;
  std::string fault;                        // train/faults.h
  std::function<std::string()> stopped_by;  // "SIGTERM"; "" while nobody asks for a stop. Called before each update
};

class Session {
 public:
  // All of it outlives the session. `config` gets the vocabulary that the data turns out to have. Each consumer sees every event,
  // in this order. With an error of one, those behind it do not see the event.
  Session(Config& config, const SessionRequest& request, RunFolder& folder, const NextCommands& commands,
          std::vector<Consumer*> consumers);
  ~Session();

  // Nothing where the training is done or was stopped; a plan that does not fit. Throws Error for what ended it.
  std::optional<Refused> run();

 private:
  void emit(const Event& event);
  void tell_failure(const Error& error);
  // What cannot be written down ends the run, and must not cost what was learned: the checkpoint comes first.
  void record(Trainer& trainer, const Event& event);

  void find_checkpoint();
  Error no_checkpoint(std::string message, Remedies remedies) const;
  std::optional<Refused> prepare();
  void train();
  // Of the folder that the run began from.
  WeightLayout find_layout(const Graph& graph) const;
  void check_room_for(const Plan& plan, const RunRoom& room) const;
  void begin();
  // What was written down of the updates until now.
  void recall();
  void check_reserve(const Plan& plan, const Device& device) const;
  void make_wrong(Trainer& trainer);
  void loop(Trainer& trainer, const Plan& plan, const Device& device, bool validation);
  // The metrics are those of an update that has been made.
  Metrics next_update(Trainer& trainer);
  void keep_learned(Trainer& trainer, Error& error);
  void warn_of_groups(Trainer& trainer, std::optional<double> loss_scale);
  void warn(const DivergenceWatch::Seen& seen, Trainer& trainer);
  void evaluate(Trainer& trainer);
  // Before something is saved: a folder that was moved meanwhile is told.
  void follow_folder();
  void save(Trainer& trainer);
  bool save_is_due(std::int64_t update) const;
  void finish(Trainer& trainer, const Plan& plan, const Device& device, Audit* audit);
  Bytes promised(const Plan& plan) const;
  std::string slower_command(std::int64_t good_updates) const;

  Config& config_;
  const SessionRequest& request_;
  RunFolder& folder_;
  const NextCommands& commands_;
  std::vector<Consumer*> consumers_;
  std::filesystem::path checkpoint_;  // that is resumed
  std::optional<Progress> resumed_;
  Prepared prepared_;
  std::string layout_text_;
  Progress reached_;            // after the last update, or by the checkpoint
  bool model_changed_ = false;  // since the run began, and it goes on all the same
  std::int64_t saved_at_ = -1;  // updates of the checkpoint in the folder
  double saved_time_ = 0;       // or when updates began
  DivergenceWatch watch_;
  ValidationWatch validation_;
  std::optional<GroupWatch> groups_;
  bool told_unstable_ = false, told_divergence_ = false;
};

}  // namespace plimsoll
