#include "records/update_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/shell.h"
#include "formats/atomic_file.h"

namespace plimsoll {
namespace {

struct Line {
  std::int64_t update = 0, begin = 0, end = 0;  // bytes, with the line break
};

Error cannot_write(const std::filesystem::path& path, const std::string& why) {
  return data_error("E-IO-WRITE", path.string(), "it cannot be written: " + why, "a file that can be changed, with free space",
                    {"df -h " + shell_quoted(path.parent_path().empty() ? "." : path.parent_path().string())});
}

std::optional<std::int64_t> update_of(const std::string& line) {
  const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("update") || !object["update"].is_number_integer()) return {};
  const std::int64_t update = object["update"];
  return update >= 0 ? std::optional(update) : std::nullopt;
}

// Calls visit(line, begin, end) for what lies in front of each line break.
template <class Visit>
void for_each_whole_line(std::ifstream& lines, Visit&& visit) {
  std::int64_t begin = 0;
  for (std::string line; std::getline(lines, line) && !lines.eof();) {
    const std::int64_t end = begin + std::ssize(line) + 1;
    visit(line, begin, end);
    begin = end;
  }
  lines.clear();
}

// The bytes that stay where everything that stays comes first and is in order.
std::optional<std::int64_t> bytes_in_order(std::ifstream& lines, std::int64_t updates, PerUpdate count) {
  std::int64_t keep = 0, last = -1;
  bool ended = false, in_order = true;
  for_each_whole_line(lines, [&](const std::string& line, std::int64_t, std::int64_t end) {
    const std::optional<std::int64_t> update = update_of(line);
    if (!update || *update > updates) {
      ended = true;
    } else if (ended || *update < last || (*update == last && count == PerUpdate::one)) {
      in_order = false;
    } else {
      keep = end;
      last = *update;
    }
  });
  return in_order ? std::optional(keep) : std::nullopt;
}

void put_in_order(std::ifstream& lines, const std::filesystem::path& path, std::int64_t updates, PerUpdate count) {
  std::vector<Line> kept;
  lines.seekg(0);
  for_each_whole_line(lines, [&](const std::string& line, std::int64_t begin, std::int64_t end) {
    const std::optional<std::int64_t> update = update_of(line);
    if (update && *update <= updates) kept.push_back({*update, begin, end});
  });
  std::ranges::stable_sort(kept, {}, &Line::update);
  AtomicFile file(path);
  std::string text;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (count == PerUpdate::one && i + 1 < kept.size() && kept[i + 1].update == kept[i].update) continue;
    text.resize(static_cast<std::size_t>(kept[i].end - kept[i].begin));
    lines.seekg(kept[i].begin);
    lines.read(text.data(), std::ssize(text));
    file.write(text);
  }
  file.commit();
}

}  // namespace

void cut_lines(const std::filesystem::path& path, std::int64_t updates, PerUpdate count) {
  std::ifstream lines(path, std::ios::binary);
  if (!lines) return;
  const std::optional<std::int64_t> keep = bytes_in_order(lines, updates, count);
  if (!keep) return put_in_order(lines, path, updates, count);
  std::error_code error;
  if (static_cast<std::int64_t>(std::filesystem::file_size(path, error)) == *keep && !error) return;
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(*keep), error);
  if (error) throw cannot_write(path, error.message());
}

void for_each_line(const std::filesystem::path& path, const std::function<void(const nlohmann::json&)>& see) {
  std::ifstream lines(path, std::ios::binary);
  for_each_whole_line(lines, [&](const std::string& line, std::int64_t, std::int64_t) {
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, false);
    if (object.is_object()) see(object);
  });
}

void append_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << text << std::flush;
  if (!file) throw cannot_write(path, std::strerror(errno));
}

void sync_file(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // What is no file on a disk cannot be synced and says EINVAL.
  if (error != 0 && error != EINVAL) throw cannot_write(path, std::strerror(error));
}

}  // namespace plimsoll
