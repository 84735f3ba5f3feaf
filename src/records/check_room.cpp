#include "records/check_room.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/shell.h"
#include "formats/file.h"
#include "formats/weight_files.h"
#include "records/checkpoints.h"
#include "weights/checkpoint.h"
#include "weights/manifest.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

// The nearest existing folder at or above the path.
fs::path existing(const fs::path& path) {
  std::error_code error;
  fs::path place = fs::absolute(path, error);
  while (!fs::exists(place, error) && place.has_relative_path()) place = place.parent_path();
  return place;
}

bool same_file_system(const fs::path& a, const fs::path& b) {
  struct stat one {};
  struct stat other {};
  return ::stat(existing(a).c_str(), &one) == 0 && ::stat(existing(b).c_str(), &other) == 0 && one.st_dev == other.st_dev;
}

// The bytes of the run's files, up to its own need.
Bytes present(const RunFolder& folder, const RunRoom& room) {
  Bytes checkpoints;
  for (const KeptCheckpoint& each : checkpoints_in(folder.path())) {
    if (each.update <= room.until) checkpoints += file_bytes(state_file(each.path));
  }
  return std::min(checkpoints, room.checkpoint * room.checkpoints) + std::min(weights_in(folder.weights()), room.weights) +
         std::min(weights_in(folder.averages()), room.averages) + std::min(weights_in(folder.best()), room.best);
}

// The bytes of the files below a folder.
Bytes bytes_below(const fs::path& folder) {
  std::error_code error;
  Bytes all;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->is_regular_file(error)) all += file_bytes(entry->path());
  }
  return all;
}

// A name for the run in the first place with room; empty if there is none.
fs::path place_with_room(const fs::path& run, Bytes need, const std::vector<fs::path>& places) {
  std::error_code error;
  const std::string name = run.filename().empty() ? run.parent_path().filename().string() : run.filename().string();
  for (const fs::path& place : places) {
    const std::optional<Bytes> left = free_bytes(place);
    if (!left || *left < need || ::access(existing(place).c_str(), W_OK | X_OK) != 0) continue;
    fs::path target = place / name;
    for (int i = 2; fs::exists(target, error); ++i) target = place / fmt::format("{}-{}", name, i);
    return target;
  }
  return {};
}

std::string parts_text(const RunRoom& room) {
  std::string more = room.averages.n > 0 ? fmt::format(", averages {}", to_text(room.averages)) : "";
  if (room.best.n > 0) more += fmt::format(", best weights {}", to_text(room.best));
  if (room.successor().n > 0) more += fmt::format(", a successor of weights {}", to_text(room.successor()));
  return fmt::format("{} checkpoints of {}, weights {}{}, records {}", room.checkpoints, to_text(room.checkpoint),
                     to_text(room.weights), more, to_text(room.records));
}

}  // namespace

std::optional<Bytes> free_bytes(const fs::path& path) {
  std::error_code error;
  const fs::space_info space = fs::space(existing(path), error);
  // Some network file systems report zeros.
  if (error || space.capacity == 0) return {};
  return Bytes{static_cast<std::int64_t>(std::min(space.available, std::uintmax_t{1} << 62))};
}

void check_room(const RunFolder& folder, const RunRoom& room, Bytes pages, const fs::path& pages_in,
                const std::vector<fs::path>& elsewhere) {
  const std::optional<Bytes> left = free_bytes(folder.path());
  const bool beside = pages.n > 0 && same_file_system(folder.path(), pages_in);
  const Bytes had = present(folder, room), need = room.all() - had + (beside ? pages : Bytes{0});
  if (!left || *left >= need) return;
  std::string text = fmt::format("{} are free there and {} are needed: {}", to_text(*left), to_text(need), parts_text(room));
  if (beside) text += fmt::format(", pages of memory.disk {}", to_text(pages));
  if (had.n > 0) text += fmt::format("; {} of that lie there", to_text(had));
  Remedies remedies;
  const fs::path place = had.n > 0 ? fs::path() : place_with_room(folder.path(), room.all(), elsewhere);
  if (!place.empty()) remedies.push_back(Change("command.run", place.string()));
  if (had.n > 0)
    remedies = {fmt::format("cp -r {} ANOTHER_FOLDER", shell_quoted(folder.path().string())),
                Remedy::of_command("train", {{"command.run", "ANOTHER_FOLDER"}, {"command.resume"}}, "after it")};
  const fs::path aside = folder.path() / "abandoned";
  if (const Bytes bytes = bytes_below(aside); *left + bytes >= need && bytes.n > 0) {
    text += fmt::format("; {} has {} of parts that the run left when it went back", aside.string(), to_text(bytes));
    remedies.insert(remedies.begin(), fmt::format("rm -r {}", shell_quoted(aside.string())));
  }
  if (remedies.empty()) remedies.push_back(Change("command.run", "ANOTHER_FOLDER"));
  throw data_error("E-RUN-ROOM", folder.path().string(), std::move(text), fmt::format("a folder with {} free", to_text(need)),
                   std::move(remedies));
}

void check_file_limit(const RunFolder& folder, const RunRoom& room) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const Bytes largest = std::max(room.checkpoint - kMostManifest, room.largest_file);
  if (limit.rlim_cur >= static_cast<rlim_t>(largest.n)) return;
  throw data_error("E-IO-WRITE", folder.path().string(),
                   fmt::format("it has {} and this process may write files of {} at most", to_text(largest),
                               to_text(Bytes{static_cast<std::int64_t>(limit.rlim_cur)})),
                   "a larger limit for the size of a file", {"ulimit -f unlimited"});
}

}  // namespace plimsoll
