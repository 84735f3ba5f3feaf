// The lines of a run's files: metrics.jsonl, eval.jsonl, samples.jsonl, events.jsonl. Lines are read one by one. A line without
// its end is being written, or was torn by a kill; it is left out, as are lines that are broken or not after the one before.
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

class File;

inline constexpr const char *kMetricsFile = "metrics.jsonl", *kEvaluationsFile = "eval.jsonl", *kEventsFile = "events.jsonl",
                            *kAnswersFile = "samples.jsonl";

// Lines that were left out.
struct LeftOut {
  std::int64_t broken = 0, out_of_order = 0;
  bool torn = false;  // the last line has no end
};

// A loss or norm of null is NaN. Facts that lines of earlier versions lack are 0 or absent.
std::optional<Metrics> metrics_of_line(std::string_view line);
std::optional<Evaluation> evaluation_of_line(std::string_view line);

// Calls `see` for each update, in ascending order, from the files in `folder`: a run or a part of it in abandoned/.
LeftOut read_metrics(const std::filesystem::path& folder, const std::function<void(const Metrics&)>& see);
LeftOut read_evaluations(const std::filesystem::path& folder, const std::function<void(const Evaluation&)>& see);
// Several answers may be of one update.
LeftOut read_answers(const std::filesystem::path& folder, const std::function<void(const Answer&)>& see);
// Objects with the texts and numbers of an event; "event" is its name and "update" its update. Several may have one update.
LeftOut read_events(const std::filesystem::path& folder, const std::function<void(const nlohmann::json&)>& see);

// The last readable line, from the end of the file. Its time does not grow with the file.
std::optional<Metrics> last_metrics(const std::filesystem::path& folder);

// Follows a growing file of lines.
class LineFollower {
 public:
  explicit LineFollower(std::filesystem::path path) : path_(std::move(path)) {}

  // Calls `see` for each new whole line. If lines that it has seen are not there any more, since a resume has cut them, it calls
  // `again` and then `see` for all lines from the first one. An absent file has no lines.
  void poll(const std::function<void(std::string_view)>& see, const std::function<void()>& again);

 private:
  bool is_same(const File& file) const;

  std::filesystem::path path_;
  std::uint64_t device_ = 0, inode_ = 0;
  std::int64_t end_ = 0;  // of the seen lines
  std::string last_;      // the last one, with its line break
};

}  // namespace plimsoll
