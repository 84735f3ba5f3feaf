// The folder of a run: run.json (written at the start, replaced at the end), metrics.jsonl (a line per update), eval.jsonl (a
// line per evaluation), events.jsonl, the resolved configuration, the plan, the weights, the checkpoint. A folder in which no run
// began is taken away again. What a run writes are files and folders of its own, no links. The run stays with the folder that it
// has opened: one that is moved meanwhile is followed, and whatever lies at the old path is not touched.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/metrics.h"

namespace plimsoll {

// "running", "done", "failed" or "interrupted", as run.json says; "interrupted" also for a run that says "running" and that no
// process holds: it was killed, or its machine went down. Empty where nothing can be read.
std::string run_status(const std::filesystem::path& run);

// Whether it failed because its training diverged.
bool run_diverged(const std::filesystem::path& run);

class RunFolder {
 public:
  // Creates the folder, or opens an existing run where `resume`; one that nobody ended is marked as interrupted in run.json. A
  // run of which nothing has been saved begins anew without --resume; any other is E-RUN-EXISTS (exit 2). E-RUN-MISSING for
  // --resume without a run, E-RUN-BUSY (exit 2) where another process trains in it, E-IO-WRITE (exit 5) where nothing can be
  // written. The run has begun with its first run.json. The folder is locked while this lives.
  static RunFolder open(const std::filesystem::path& path, bool resume);
  ~RunFolder();
  RunFolder(RunFolder&&) noexcept;

  const std::filesystem::path& path() const { return path_; }
  // Before anything is saved: from here on path() and what lies below it is where the folder is now. Whether that is another
  // place than before. E-IO-WRITE where the folder is nowhere.
  bool follow();
  // Whether a run had begun here of which nothing has been saved.
  bool begins_anew() const { return begins_anew_; }
  std::filesystem::path weights() const { return path_ / "weights"; }
  std::filesystem::path averages() const { return path_ / "weights_ema"; }
  // How weights are stored, where the run began from a folder (weights/weight_layout.h).
  std::filesystem::path stored() const { return path_ / "stored.json"; }
  std::filesystem::path checkpoint() const { return path_ / "checkpoint.safetensors"; }
  // Token files of text, where the cache cannot be written.
  std::filesystem::path tokens() const { return path_ / "tokens"; }
  std::filesystem::path diverged() const { return path_ / "diverged.safetensors"; }

  // Whether a line of metrics.jsonl tells of one.
  bool has_updates() const;
  // The nearest folder above this one that was there before; empty: the current one.
  std::filesystem::path lies_in() const { return created_.empty() ? path_.parent_path() : created_.back().parent_path(); }

  void write(const std::string& name, const std::string& text);
  void write_run(const nlohmann::json& run);
  // The same where the disk is full: over the bytes that run.json has. It may be torn where the process is killed meanwhile.
  void overwrite_run(const nlohmann::json& run) const noexcept;
  // Of a run that was marked as interrupted: the process that had it.
  std::optional<std::int64_t> ended_process() const { return ended_process_; }
  // Opens metrics.jsonl and drops the lines of updates past `updates`, which a run that was killed may have left.
  void open_metrics(std::int64_t updates);
  // Reads update, loss and gradient norm from its lines, in order, as far as they can be read.
  void read_metrics(const std::function<void(const Metrics&)>& see) const;
  // events.jsonl: what happened beside the updates, each an object with the number of the update that was due. Opening drops
  // those past `updates` that have been made.
  void open_events(std::int64_t updates);
  void read_events(const std::function<void(const nlohmann::json&)>& see) const;
  void append_event(const nlohmann::json& event);
  // Without allocating.
  void append(const Metrics& metrics);
  // eval.jsonl: opening drops evaluations past `updates`. A second one at an update replaces the first.
  void open_evaluations(std::int64_t updates);
  void append(const Evaluation& evaluation);
  // Reads update and loss from its lines, in order, as far as they can be read.
  void read_evaluations(const std::function<void(const Evaluation&)>& see) const;
  // Brings all lines to the disk, for a checkpoint that presupposes them.
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
  std::vector<std::filesystem::path> created_;  // the folder and those above it that were not there, innermost first
  bool begun_ = false, begins_anew_ = false;
  std::optional<std::int64_t> ended_process_;
  std::int64_t evaluated_ = -1;                        // the last update in eval.jsonl
  int metrics_ = -1, evaluations_ = -1, events_ = -1;  // open for appending, from the first line on
  int lock_ = -1;                                      // the folder; -1 where it cannot be opened
};

}  // namespace plimsoll
