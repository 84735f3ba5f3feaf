// The training loop: windows of micro-steps, updates, evaluation, checkpoints. It feeds and fetches; the program does the rest.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/config.h"
#include "data/prefetch.h"
#include "data/sample_source.h"
#include "data/window.h"
#include "device/arena.h"
#include "prepare/data_files.h"
#include "prepare/training_graph.h"
#include "run/executor.h"
#include "train/faults.h"
#include "train/loss_scale.h"
#include "train/metrics.h"
#include "train/rank_sums.h"
#include "train/wrong_statistics.h"
#include "weights/checkpoint.h"
#include "weights/weights.h"

namespace plimsoll {

// Called with the number of samples done, and of all samples.
using OnEvaluated = std::function<void(std::int64_t, std::int64_t)>;

// Evaluates `samples` samples (0: all) from the start of a source. Rows of a pass with segments are packed as in training. The
// loss is the weighted sum of the pass's losses. `staging` is the first of the two buffers. With `ranks`, batch number m runs on
// rank m modulo their number; all of them get the result.
EvaluationResult evaluate(Executor& executor, const SampleSource& source, std::int64_t batch, std::int64_t samples,
                          const Pass& pass, ValueId staging, const OnEvaluated& on_evaluated = {}, RankSums* ranks = nullptr);

// The sources of a training and the windows of its updates. The sources outlive the trainer.
struct TrainingData {
  const SampleSource& train;
  const SampleSource* validation = nullptr;
  std::string name;  // of the first, for messages
  WindowRule windows;
};

// Sources over the data, which outlive them.
class DataSources {
 public:
  DataSources(const Config& config, const DataFiles& files);
  TrainingData data() const { return {*train_, validation_.get(), name_, windows_}; }

 private:
  std::string name_;
  WindowRule windows_;
  std::unique_ptr<SampleSource> train_, validation_;
};

class Trainer {
 public:
  // All references outlive this. The arena has been mapped and touched. If the executor has peers, all of them train together.
  Trainer(const Config& config, const TrainingGraph& model, const Plan& plan, Executor& executor, TrainingData data);
  ~Trainer();

  // Fills parameters and state: fresh, from config.model.init, or from a checkpoint.
  void load(const std::filesystem::path* checkpoint);
  // Lets a new run begin with the loaded state: its updates and samples count from zero, the optimizer's count goes on.
  // `same_order`: the order of the samples goes on, too; else it begins anew.
  void fork(bool same_order);
  // Makes one update and returns its metrics. Throws E-DIVERGED (exit 4) if loss or gradient are not finite, or E-SCALE-FLOOR if
  // no loss scale helps; nothing is saved then.
  Metrics update();
  // True if update() failed to read its data. The parameters learned before are whole and can be saved.
  bool lost_data() const { return lost_data_; }
  EvaluationResult evaluate_now(const OnEvaluated& on_evaluated = {});
  // Prepares the caches for answers of the present weights.
  void begin_answers();
  // Runs a pass of TrainingGraph::answers; `feed` writes its inputs.
  void run_pass(const Pass& pass, const std::function<void()>& feed);
  Executor& executor() { return executor_; }
  void save_checkpoint_to(const std::filesystem::path& folder);
  // Saves in the layout of the loaded files, or in that of `keep_layout`.
  void save_weights_to(const std::filesystem::path& folder, const SaveOptions& options = {});
  // Sets the layout of a resumed run, whose original files may be gone.
  void keep_layout(WeightLayout layout) { layout_ = std::move(layout); }
  std::string hash_parameters() const;
  // True if saving the weights rounds trained ones.
  bool rounds_weights() const;

  // The factor of all later rates, beside the schedule.
  void scale_rate(double factor) { rate_factor_ = factor; }
  // The rate of the next update.
  double learning_rate() const;
  // For the last update: TrainingValues::report and UnderflowMeter::report (empty without fp16).
  std::span<const double> report() const;
  std::span<const double> small_gradients() const;

  const Progress& progress() const { return progress_; }
  Progress& progress() { return progress_; }
  // Called after the first micro-step of the run: everything has been touched once, nothing has been updated.
  void after_warmup(std::function<void()> hook) { after_warmup_ = std::move(hook); }
  // Called before the sections of a phase run, for the audit.
  void before_phase(std::function<void(Phase)> hook) { before_phase_ = std::move(hook); }
  // Called after each micro-batch has been taken from the reader of data.
  void on_reading(std::function<void(const Prefetcher::Reading&)> hook) { on_reading_ = std::move(hook); }
  // Called after each window that overflowed, with fp16.
  void on_overflow(std::function<void(const Overflow&)> hook) { on_overflow_ = std::move(hook); }
  // Makes training wrong from here on, for verify. One weight for each micro-step of a window.
  void make_wrong(const Faults& faults);

 private:
  void start_prefetch();
  void start_scale();
  void keep_prefetching();
  template <class Work>
  void read_data(const Work& work);
  // Finds the samples of the next update and the factors of their losses.
  void start_window();
  void sum_over_ranks();
  double loss_of_window() const;
  void feed_micro(double scale);
  static void count_absent_rows(std::span<const FieldBuffer> fields);
  bool run_window();
  bool finite_so_far() const;
  void leave_window(LossScale::Next next, double scale);
  void rewind();
  void find_watched();
  bool measures_noise(std::int64_t rounds) const;
  std::optional<NoiseSums> noise_of_window() const;
  std::int64_t clock() const;
  void feed_update(std::int64_t update);
  void enter(Phase phase);

  const Config& config_;
  const TrainingGraph& model_;
  const Plan& plan_;
  Executor& executor_;
  TrainingData data_;
  SampleOrder order_;
  Window window_;        // of the current update
  WindowBatches ahead_;  // micro-batches read ahead
  std::optional<Prefetcher> prefetcher_;
  Progress progress_;
  FrozenWeights frozen_;            // references to frozen weights in checkpoints
  WeightLayout layout_;             // of the folder with saved weights
  std::optional<LossScale> scale_;  // with fp16
  std::vector<ValueId> watched_;    // small accumulators: a non-finite number in a layer spreads to all layers before it
  Faults faults_;
  std::optional<WrongStatistics> wrong_statistics_;
  double rate_factor_ = 1;
  std::int64_t micro_in_window_ = 0;
  std::optional<double> first_norm_;  // of the gradient sums after the first round of the window, if it was measured
  bool lost_data_ = false;
  // The fields of one micro-batch of a group, and the scale of each loss.
  struct Fed {
    std::vector<ValueId> values, scales;
    std::vector<FieldBuffer> fields;  // current places of the values
  };
  std::vector<Fed> group_;
  std::vector<double> factors_;  // by loss: its weight over its denominator, for the current window
  std::vector<ValueId> steps_;   // by micro-batch, for noise
  BatchShare share_;
  std::optional<RankSums> ranks_;
  std::vector<double> sums_;  // over ranks, of the last window: totals of losses, report, small gradients
  std::function<void()> after_warmup_;
  std::function<void(Phase)> before_phase_;
  std::function<void(const Prefetcher::Reading&)> on_reading_;
  std::function<void(const Overflow&)> on_overflow_;
};

}  // namespace plimsoll
