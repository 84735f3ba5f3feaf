#include "records/checkpoints.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

#include "base/error.h"
#include "formats/atomic_file.h"
#include "weights/checkpoint.h"
#include "weights/manifest.h"

namespace plimsoll {
namespace {

namespace fs = std::filesystem;

constexpr const char *kFolder = "checkpoints", *kFirstFormat = "checkpoint.safetensors";

// 0 for any other name.
std::int64_t update_of(const std::string& name) {
  std::int64_t update = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), update);
  return error == std::errc{} && end == name.data() + name.size() && std::to_string(update) == name ? update : 0;
}

std::int64_t update_in(const fs::path& checkpoint) {
  try {
    return read_progress(checkpoint).updates;
  } catch (const Error&) {
    return 0;
  }
}

}  // namespace

fs::path checkpoint_path(const fs::path& run, std::int64_t update) { return run / kFolder / std::to_string(update); }

void remove_checkpoint(const fs::path& checkpoint) {
  std::error_code ignored;
  const fs::path partial = checkpoint.parent_path() / partial_name(checkpoint.filename().string());
  fs::rename(checkpoint, partial, ignored);
  fs::remove_all(ignored ? checkpoint : partial, ignored);
}

fs::path run_of_checkpoint(const fs::path& checkpoint) {
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(fs::absolute(checkpoint, ignored), ignored);
  return fs::is_directory(whole, ignored) ? whole.parent_path().parent_path() : whole.parent_path();
}

fs::path find_checkpoint(const fs::path& named) {
  std::error_code ignored;
  const fs::path path = named.has_filename() ? named : named.parent_path();
  if (fs::exists(path / kManifestFile, ignored) || fs::is_regular_file(path, ignored)) return path;
  if (const std::vector<KeptCheckpoint> kept = checkpoints_in(path); !kept.empty()) return kept.back().path;
  const fs::path of_update = path.parent_path() / kFolder / path.filename();
  if (update_of(path.filename().string()) > 0 && fs::exists(of_update / kManifestFile, ignored)) return of_update;
  throw data_error("E-CKPT-MISSING", named.string(), "there is no checkpoint", "the folder of a run, or RUN/UPDATE");
}

std::vector<KeptCheckpoint> checkpoints_in(const fs::path& run) {
  std::vector<KeptCheckpoint> all;
  std::error_code ignored;
  if (fs::is_regular_file(run / kFirstFormat, ignored)) all.push_back({update_in(run / kFirstFormat), run / kFirstFormat});
  for (const auto& entry : fs::directory_iterator(run / kFolder, ignored)) {
    const std::int64_t update = update_of(entry.path().filename().string());
    if (update > 0 && entry.symlink_status(ignored).type() == fs::file_type::directory) all.push_back({update, entry.path()});
  }
  std::ranges::stable_sort(all, {}, &KeptCheckpoint::update);
  return all;
}

std::vector<std::int64_t> surplus(const Retention& retention, std::span<const std::int64_t> updates,
                                  std::span<const Evaluation> best, bool another) {
  const auto last = static_cast<std::size_t>(std::max<std::int64_t>(1, retention.last - (another ? 1 : 0)));
  const std::size_t older = updates.size() - std::min(updates.size(), last);
  // The best evaluations with a checkpoint.
  std::vector<std::int64_t> chosen;
  for (const Evaluation& each : best) {
    if (std::ssize(chosen) == retention.best) break;
    if (std::ranges::find(updates, each.update) != updates.end()) chosen.push_back(each.update);
  }
  std::vector<std::int64_t> gone;
  for (const std::int64_t update : updates.first(older)) {
    if (!retention.keeps(update) && std::ranges::find(chosen, update) == chosen.end()) gone.push_back(update);
  }
  return gone;
}

}  // namespace plimsoll
