#include "records/checkpoints.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <system_error>

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

}  // namespace

fs::path checkpoint_path(const fs::path& run, std::int64_t update) { return run / kFolder / std::to_string(update); }

std::vector<KeptCheckpoint> checkpoints_in(const fs::path& run) {
  std::vector<KeptCheckpoint> all;
  std::error_code ignored;
  if (fs::is_regular_file(run / kFirstFormat, ignored)) all.push_back({0, run / kFirstFormat});
  for (const auto& entry : fs::directory_iterator(run / kFolder, ignored)) {
    const std::int64_t update = update_of(entry.path().filename().string());
    if (update > 0 && entry.symlink_status(ignored).type() == fs::file_type::directory) all.push_back({update, entry.path()});
  }
  std::ranges::sort(all, {}, &KeptCheckpoint::update);
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
