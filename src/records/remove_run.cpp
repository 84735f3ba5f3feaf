#include "records/remove_run.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "formats/atomic_file.h"
#include "formats/tokenizer_folder.h"
#include "formats/weight_files.h"
#include "formats/weights_folder.h"
#include "records/best_weights.h"
#include "records/line_reader.h"
#include "records/run_note.h"
#include "records/run_reader.h"
#include "weights/manifest.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 11> kFiles{
    kMetricsFile,    kEvaluationsFile,       kEventsFile, kAnswersFile,  "report.html",           kNoteFile,
    "settings.json", "config.resolved.toml", "plan.json", "stored.json", "checkpoint.safetensors"};

bool is_number(const std::string& name) { return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos; }

template <class Names>
bool among(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != std::ranges::end(names);
}

bool of_weights(const std::string& name) {
  static constexpr std::array<std::string_view, 5> kNames{"config.json", "adapter_config.json", "adapter_model.safetensors",
                                                          kBestFile, "adapter_model.safetensors.index.json"};
  return is_weights_name(name) || among(kNames, name) || among(tokenizer_files(), name) || among(generation_files(), name);
}

// state.safetensors and state-1.safetensors: the tensors of a rank.
bool is_state(std::string_view name) {
  constexpr std::string_view kBegin = "state", kEnd = ".safetensors";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return false;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  return name.empty() || (name.front() == '-' && is_number(std::string(name.substr(1))));
}

bool of_checkpoint(const std::string& name) { return is_state(name) || name == kManifestFile; }

// Sorts what lies in a run's folder into files of the run and foreign things.
class Sorter {
 public:
  explicit Sorter(RunRemoval& removal) : removal_(removal) {}

  void run(const fs::path& folder) {
    each(folder, [&](const fs::directory_entry& entry, const std::string& name) {
      if (name == "weights" || name == "weights_ema" || name == kBestWeights) return folder_of(entry, of_weights);
      if (name == "checkpoints") return checkpoints(entry);
      if (name == "diverged") return folder_of(entry, of_checkpoint);
      if (name == "tokens") return folder_of(entry, [](const std::string&) { return true; });
      if (name == "abandoned") return abandoned(entry);
      if (name == kRunFile) return is_file(entry);  // last
      return file(entry, among(kFiles, name) || name == "diverged.safetensors");
    });
    std::error_code ignored;
    if (fs::symlink_status(folder / kRunFile, ignored).type() == fs::file_type::regular) keep(folder / kRunFile);
  }

 private:
  template <class Visit>
  void each(const fs::path& folder, const Visit& visit) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      if (!visit(*entry, entry->path().filename().string())) removal_.foreign.push_back(entry->path());
    }
  }

  static bool is_file(const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.symlink_status(ignored).type() == fs::file_type::regular;
  }
  static bool is_folder(const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.symlink_status(ignored).type() == fs::file_type::directory;
  }

  void keep(const fs::path& path) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(path, error);
    if (!error) removal_.bytes += Bytes{static_cast<std::int64_t>(size)};
    removal_.files.push_back(path);
  }

  bool file(const fs::directory_entry& entry, bool known) {
    const bool partial = is_partial(entry.path());
    if (partial && is_folder(entry)) return folder_of(entry, [](const std::string&) { return true; });
    if (!is_file(entry) || !(known || partial)) return false;
    keep(entry.path());
    return true;
  }

  // A folder of known names.
  bool folder_of(const fs::directory_entry& folder, bool (*knows)(const std::string&)) {
    if (!is_folder(folder)) return false;
    each(folder.path(), [&](const fs::directory_entry& entry, const std::string& name) { return file(entry, knows(name)); });
    return true;
  }

  bool checkpoints(const fs::directory_entry& folder) {
    if (!is_folder(folder)) return false;
    each(folder.path(), [&](const fs::directory_entry& entry, const std::string& name) {
      return is_number(name) ? folder_of(entry, of_checkpoint) : file(entry, false);
    });
    return true;
  }

  // abandoned/N has lines, checkpoints, best weights and a diverged state, abandoned/weights_best weights.
  bool abandoned(const fs::directory_entry& folder) {
    if (!is_folder(folder)) return false;
    each(folder.path(), [&](const fs::directory_entry& part, const std::string& name) {
      if (name == kBestWeights) return folder_of(part, of_weights);
      if (!is_number(name) || !is_folder(part)) return false;
      each(part.path(), [&](const fs::directory_entry& entry, const std::string& inner) {
        if (inner == "checkpoints") return checkpoints(entry);
        if (inner == "diverged") return folder_of(entry, of_checkpoint);
        if (inner == kBestWeights) return folder_of(entry, of_weights);
        return file(entry, among(kFiles, inner) || inner == "diverged.safetensors");
      });
      return true;
    });
    return true;
  }

  RunRemoval& removal_;
};

}  // namespace

RunRemoval plan_removal(const fs::path& run) {
  RunRemoval removal;
  Sorter(removal).run(run);
  return removal;
}

void remove_run(const fs::path& named) {
  const fs::path run = named.has_filename() ? named : named.parent_path();
  const int lock = ::open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock);
    throw config_error("E-RUN-BUSY", run.string(), fmt::format("process {} trains in it", read_run(run).pid),
                       "a run that no process trains: end it first");
  }
  const RunRemoval removal = plan_removal(run);
  std::error_code error;
  for (const fs::path& path : removal.files) {
    fs::remove(path, error);
    if (error) break;
    // Its folders, once they are empty. rmdir() leaves others, and links, as they are.
    for (fs::path folder = path.parent_path(); folder != run && ::rmdir(folder.c_str()) == 0;) folder = folder.parent_path();
  }
  if (lock >= 0) ::close(lock);
  if (error)
    throw data_error("E-IO-WRITE", run.string(), "it cannot be removed: " + error.message(), "a folder that can be changed");
  for (const char* empty : {"weights", "weights_ema", kBestWeights, "checkpoints", "diverged", "abandoned", "tokens"}) {
    ::rmdir((run / empty).c_str());
  }
  std::error_code ignored;
  ::rmdir(fs::canonical(run, ignored).c_str());
}

}  // namespace plimsoll
