// One training from its configuration to its result: it plans, loads, updates, decides on evaluations, saves and stops, and saves
// the weights. Consumers receive its events. A session prints nothing; the files it writes are checkpoints and weights.
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
#include "session/find_checkpoint.h"
#include "session/run_answers.h"
#include "session/run_remedies.h"
#include "session/run_saves.h"
#include "session/session_ranks.h"
#include "train/divergence.h"
#include "train/group_watch.h"
#include "train/improvement.h"
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
  RunSettings settings;    // the source of the configuration
  PrepareOptions prepare;  // without the folders of the run, which the session adds
  std::int64_t updates = 0;
  bool resumes = false;        // continues from a checkpoint in the folder
  std::string checkpoint;      // which: an update, "best", or "last"; empty: the last
  std::filesystem::path from;  // a checkpoint of another run, whose state a new run takes; empty: none
  bool forced = false;         // permits changes that alter results
  bool audit = false;
  std::string fault;                        // train/faults.h
  Peers* peers = nullptr;                   // the other ranks; null in a process that trains alone
  bool first_of_host = true;                // the first rank of its host
  std::function<std::string()> stopped_by;  // "SIGTERM"; "" without a request to stop. Called before each update
};

class Session {
 public:
  // All references outlive the session. `config` gets the vocabulary of the data. Consumers see every event in this order; an
  // error of one keeps the event from later ones.
  Session(Config& config, const SessionRequest& request, RunFolder& folder, std::vector<Consumer*> consumers);
  ~Session();

  // Returns the refusal of a plan that does not fit, and nothing after a complete or stopped training. Throws Error if it fails.
  std::optional<Refused> run();

 private:
  void emit(const Event& event);
  void tell_failure(const Error& error);
  // Emits an event of an update. If a consumer fails, the checkpoint is saved before the run ends.
  void record(Trainer& trainer, const Event& event);
  // Agrees with the other ranks after an update, or before the first. Returns true if a checkpoint is due. If one of them could
  // not record the update, all save and throw its error. False in a process that trains alone.
  bool agree(Trainer& trainer, Metrics* metrics);
  // True after a signal to one of the ranks.
  bool is_stopped();
  void throw_unrecorded(Trainer& trainer);

  std::optional<Refused> prepare();
  void train();
  // The layout of the folder from which the run began.
  WeightLayout find_layout(const Graph& graph) const;
  void check_room_for(const Plan& plan, const RunRoom& room) const;
  void begin();
  // Reads the records of the updates until now.
  void recall();
  void check_reserve(const Plan& plan, const Device& device) const;
  void make_wrong(Trainer& trainer);
  void loop(Trainer& trainer, const Plan& plan, const Device& device, bool validation);
  Metrics next_update(Trainer& trainer);
  void keep_learned(Trainer& trainer, Error& error);
  void warn_of_groups(Trainer& trainer, std::optional<double> loss_scale);
  void warn(const DivergenceWatch::Seen& seen, Trainer& trainer);
  // Makes up for an evaluation at the checkpoint, or its answers, if the run has no lines of them.
  void catch_up(Trainer& trainer, std::int64_t interval);
  void evaluate(Trainer& trainer);
  // Answers the prompts; none after a signal, or if the plan has no answers.
  std::vector<Answer> answer(Trainer& trainer) const;
  void tell(const std::vector<Answer>& answers);
  // Saves the weights of the end.
  void save_weights(Trainer& trainer);
  // Follows a folder that was moved; with several ranks, its absence ends all of them after the next update.
  void follow_folder();
  void finish(Trainer& trainer, const Plan& plan, const Device& device, Audit* audit);
  Bytes promised(const Plan& plan) const;

  Config& config_;
  const SessionRequest& request_;
  RunFolder& folder_;
  std::vector<Consumer*> consumers_;
  RunRemedies remedies_;
  std::optional<Progress> parent_;  // of the checkpoint in request_.from
  std::optional<ResumedFrom> resumed_;
  Prepared prepared_;
  std::string layout_text_;
  Progress reached_;  // after the last update, or from the checkpoint
  DivergenceWatch watch_;
  ValidationWatch validation_;
  ImprovementWatch improvement_;
  SessionRanks ranks_;
  RunSaves saves_;
  std::int64_t evaluated_at_ = -1;   // update of the last evaluation in this process
  std::string stopped_by_;           // the signal after which the loop ends; empty: none
  std::optional<Error> unrecorded_;  // with several ranks: the error of a record, until all know it
  std::optional<GroupWatch> groups_;
  std::optional<RunAnswers> answers_;  // absent if the plan has no answers
  bool told_unstable_ = false, told_divergence_ = false;
};

}  // namespace plimsoll
