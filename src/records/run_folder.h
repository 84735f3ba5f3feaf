// The folder of a run. run.json is written at the start and replaced at the end. metrics.jsonl has a line per update, eval.jsonl
// one per evaluation, samples.jsonl one per answer to a held-out prompt, events.jsonl one per event. The resolved configuration,
// the plan, the weights and the checkpoint lie beside them. A folder without a run is removed again. A run writes only files and
// folders of its own, no links. It follows its folder if that is moved, and leaves alone anything at the old path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/weights_folder.h"
#include "records/checkpoints.h"
#include "records/run_reader.h"
#include "train/metrics.h"

namespace plimsoll {

class RunFolder {
 public:
  // Creates the folder, or opens an existing run with `resume`, and marks a run without an end as interrupted in run.json.
  // Without `resume` a run with nothing saved begins again; any other is E-RUN-EXISTS (exit 2). E-RUN-MISSING: no run to resume.
  // E-RUN-BUSY (exit 2): another process trains in it. E-IO-WRITE (exit 5): it cannot be written. A run begins with its first
  // run.json. This object holds the folder's lock.
  static RunFolder open(const std::filesystem::path& path, bool resume);
  // The folder of a run whose first rank has opened it: without a lock, and never removed.
  static RunFolder of_another_rank(const std::filesystem::path& path);
  ~RunFolder();
  RunFolder(RunFolder&&) noexcept;

  const std::filesystem::path& path() const { return path_; }
  // Called before each save: path() and all paths below it follow the folder. Returns true if it has moved. E-IO-WRITE if it is
  // gone.
  bool follow();
  // True if a run had begun here and nothing of it was saved.
  bool begins_anew() const { return begins_anew_; }
  std::filesystem::path weights() const { return path_ / "weights"; }
  std::filesystem::path averages() const { return path_ / "weights_ema"; }
  std::filesystem::path best() const { return path_ / kBestWeights; }
  // The layout of weights if the run began from a folder (weights/weight_layout.h).
  std::filesystem::path stored() const { return path_ / "stored.json"; }
  // The newest one; the folder of checkpoints if there is none.
  std::filesystem::path checkpoint() const;
  bool has_checkpoint() const { return !checkpoints_in(path_).empty(); }
  // Token files of text if the cache cannot be written.
  std::filesystem::path tokens() const { return path_ / "tokens"; }
  // The state of a training that has diverged, as a checkpoint.
  std::filesystem::path diverged() const;

  // True if metrics.jsonl has the line of an update.
  bool has_updates() const;
  // The nearest folder above this one that existed before; empty: the current folder.
  std::filesystem::path lies_in() const { return created_.empty() ? path_.parent_path() : created_.back().parent_path(); }

  void write(const std::string& name, const std::string& text);
  void write_run(const nlohmann::json& run);
  // The same on a full disk: overwrites the bytes of run.json. A kill meanwhile may tear it.
  void overwrite_run(const nlohmann::json& run) const noexcept;
  // The segments in run.json: one for each start or resume. An array, empty for runs of earlier versions.
  nlohmann::json segments() const;
  // The process of a run that was marked as interrupted.
  std::optional<std::int64_t> ended_process() const { return ended_process_; }
  // Opens metrics.jsonl and drops lines of updates after `updates`: a killed run may have left some.
  void open_metrics(std::int64_t updates);
  // Reads update, loss and gradient norm of each readable line, in order.
  void read_metrics(const std::function<void(const Metrics&)>& see) const;
  // events.jsonl: events between updates, each an object with the number of the next update. Opening drops those of updates after
  // `updates`.
  void open_events(std::int64_t updates);
  void read_events(const std::function<void(const nlohmann::json&)>& see) const;
  void append_event(const nlohmann::json& event);
  // Does not allocate.
  void append(const Metrics& metrics);
  // Opens eval.jsonl and drops evaluations after `updates`. A second one at an update replaces the first.
  void open_evaluations(std::int64_t updates);
  void append(const Evaluation& evaluation);
  // Reads each readable line, in order.
  void read_evaluations(const std::function<void(const Evaluation&)>& see) const;
  // Opens samples.jsonl and drops answers after `updates`. Answers at an update replace earlier ones there.
  void open_answers(std::int64_t updates);
  void append(std::span<const Answer> answers);
  // The last update with answers; -1: none.
  std::int64_t answered() const { return answered_; }
  // Makes a folder of that name in this one. E-IO-WRITE.
  void make_folder(const char* name) const;
  // Moves the best weights to the folder of this process's set_aside(), or without one to abandoned/weights_best, in the place of
  // earlier ones there. Returns the new path.
  std::filesystem::path set_best_aside();
  // Keeps room on the disk for later lines, as far as the file system can.
  void reserve_lines(Bytes metrics);
  // Moves the lines, checkpoints and best weights of later updates, and a diverged state, to abandoned/N/, a new folder, which is
  // returned.
  std::filesystem::path set_aside(std::int64_t updates);
  // Syncs all lines to the disk, for a checkpoint that relies on them.
  void sync() const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}

  void create(const std::filesystem::path& whole);
  void lock(bool resume);
  bool is_here() const;
  void refuse_links() const;
  void append_line(int& fd, const char* name, std::string_view line) const;
  void mark_interrupted();
  void abandon() const noexcept;

  std::filesystem::path path_;
  std::filesystem::path aside_;                 // the folder of set_aside()
  std::vector<std::filesystem::path> created_;  // the new folders, innermost first
  bool begun_ = false, begins_anew_ = false;
  std::optional<std::int64_t> ended_process_;
  std::int64_t evaluated_ = -1, answered_ = -1;  // the last updates in eval.jsonl and samples.jsonl
  // Open for appending, after the first line.
  int metrics_ = -1, evaluations_ = -1, events_ = -1, answers_ = -1;
  bool reserved_ = false;  // metrics.jsonl has room past its end
  int lock_ = -1;          // the folder; -1 if it cannot be opened
};

}  // namespace plimsoll
