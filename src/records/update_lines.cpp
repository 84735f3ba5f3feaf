#include "records/update_lines.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/shell.h"
#include "formats/atomic_file.h"
#include "formats/bounded_json.h"
#include "formats/file.h"

namespace plimsoll {
namespace {

struct Line {
  std::int64_t update = 0, begin = 0, end = 0;  // bytes; the end includes the line break
};

Error cannot_write(const std::filesystem::path& path, const std::string& why) {
  return data_error("E-IO-WRITE", path.string(), "it cannot be written: " + why, "a file that can be changed, with free space",
                    {"df -h " + shell_quoted(path.parent_path().empty() ? "." : path.parent_path().string())});
}

nlohmann::json object_of(std::string_view line) {
  std::string fault;
  return parse_json(line, kLineLimits, fault);
}

std::optional<std::int64_t> update_of(std::string_view line) {
  const nlohmann::json object = object_of(line);
  if (!object.is_object() || !object.contains("update") || !object["update"].is_number_integer()) return {};
  const std::int64_t update = object["update"];
  return update >= 0 ? std::optional(update) : std::nullopt;
}

// The length of the prefix that stays; nothing if a line that stays lies after the prefix, or is out of order.
std::optional<std::int64_t> bytes_in_order(const File& file, std::int64_t updates, PerUpdate count) {
  std::int64_t keep = 0, last = -1;
  bool ended = false, in_order = true;
  for_each_whole_line(file, 0, [&](std::string_view line, std::int64_t, std::int64_t end) {
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

// Sorts lines by update. PerUpdate::one keeps the last line of each update.
void sort_lines(std::vector<Line>& lines, PerUpdate count) {
  std::ranges::stable_sort(lines, {}, &Line::update);
  if (count == PerUpdate::any) return;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i + 1 < lines.size() && lines[i + 1].update == lines[i].update) continue;
    lines[kept++] = lines[i];
  }
  lines.resize(kept);
}

void put_in_order(const File& file, const std::filesystem::path& path, std::int64_t updates, PerUpdate count) {
  constexpr std::size_t kMostLines = 1 << 20;
  std::vector<Line> kept;
  std::size_t most = 1 << 12;  // number of lines before dropped ones are removed
  for_each_whole_line(file, 0, [&](std::string_view line, std::int64_t begin, std::int64_t end) {
    const std::optional<std::int64_t> update = update_of(line);
    if (!update || *update > updates) return;
    kept.push_back({*update, begin, end});
    if (kept.size() < most) return;
    sort_lines(kept, count);
    if (kept.size() > kMostLines) {
      throw data_error("E-IO-READ", path.string(), fmt::format("more than {} of its lines are out of order", kMostLines),
                       "lines in the order of updates",
                       {"mv " + shell_quoted(path.string()) + " " + shell_quoted(path.string() + ".old")});
    }
    most = std::max(most, 2 * kept.size());
  });
  sort_lines(kept, count);
  AtomicFile sorted(path);
  std::string text;
  for (const Line& line : kept) {
    text.resize(static_cast<std::size_t>(line.end - line.begin));
    file.read_at(line.begin, std::as_writable_bytes(std::span(text)));
    sorted.write(text);
  }
  sorted.commit();
}

// The file, or nothing if it is absent.
std::optional<File> lines_of(const std::filesystem::path& path) {
  if (!is_there(path)) return {};
  return File::open(path, "E-IO-READ");
}

}  // namespace

void for_each_whole_line(const File& file, std::int64_t from,
                         const std::function<void(std::string_view, std::int64_t, std::int64_t)>& visit) {
  constexpr std::int64_t kBlockBytes = 64 << 10;
  std::string block, line;
  std::int64_t begin = from;
  for (std::int64_t at = from; at < file.size(); at += std::ssize(block)) {
    block.resize(static_cast<std::size_t>(std::min(kBlockBytes, file.size() - at)));
    file.read_at(at, std::as_writable_bytes(std::span(block)));
    for (std::size_t next = 0; next < block.size();) {
      const std::size_t stop = block.find('\n', next), end = std::min(stop, block.size());
      const std::size_t room = static_cast<std::size_t>(kLineLimits.bytes) + 1 - line.size();
      line.append(block, next, std::min(end - next, room));
      next = end + 1;
      if (stop == std::string::npos) break;
      const std::int64_t behind = at + static_cast<std::int64_t>(next);
      visit(std::string_view(line), begin, behind);
      begin = behind;
      line.clear();
    }
  }
}

void cut_lines(const std::filesystem::path& path, std::int64_t updates, PerUpdate count) {
  const std::optional<File> lines = lines_of(path);
  if (!lines) return;
  const std::optional<std::int64_t> keep = bytes_in_order(*lines, updates, count);
  std::error_code error;
  const bool alone = std::filesystem::hard_link_count(path, error) == 1;  // another link of the file may belong to others
  if (!keep || !alone) return put_in_order(*lines, path, updates, count);
  if (static_cast<std::int64_t>(std::filesystem::file_size(path, error)) == *keep && !error) return;
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(*keep), error);
  if (error) throw cannot_write(path, error.message());
}

void copy_lines_after(const std::filesystem::path& path, std::int64_t updates, const std::filesystem::path& to) {
  const std::optional<File> lines = lines_of(path);
  if (!lines) return;
  std::optional<AtomicFile> later;
  for_each_whole_line(*lines, 0, [&](std::string_view line, std::int64_t, std::int64_t) {
    if (update_of(line).value_or(0) <= updates) return;
    if (!later) later.emplace(to);
    later->write(std::string(line) + "\n");
  });
  if (later) later->commit();
}

int open_lines(int folder, const std::filesystem::path& path) {
  constexpr int kFlags = O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int fd = folder < 0 ? ::open(path.c_str(), kFlags, 0644) : ::openat(folder, path.filename().c_str(), kFlags, 0644);
  if (fd < 0) throw cannot_write(path, errno == ELOOP ? "it is a link, not a file" : std::strerror(errno));
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) return fd;
  ::close(fd);
  throw cannot_write(path, "it is a device, pipe or socket, not a file");
}

void append_text(int fd, const std::filesystem::path& path, std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t put = ::write(fd, rest.data(), rest.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      const std::string why = put < 0 ? std::strerror(errno) : "the disk is full";
      const auto begun = static_cast<off_t>(text.size() - rest.size());
      if (const off_t at = ::lseek(fd, 0, SEEK_CUR); begun > 0 && at >= begun) [[maybe_unused]]
        const int cut = ::ftruncate(fd, at - begun);
      throw cannot_write(path, why);
    }
    rest.remove_prefix(static_cast<std::size_t>(put));
  }
}

void sync_file(int folder, const std::filesystem::path& path) {
  constexpr int kFlags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int fd = folder < 0 ? ::open(path.c_str(), kFlags) : ::openat(folder, path.filename().c_str(), kFlags);
  if (fd < 0) return;
  const int error = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  // Files that are not on a disk cannot be synced and return EINVAL.
  if (error != 0 && error != EINVAL) throw cannot_write(path, std::strerror(error));
}

}  // namespace plimsoll
