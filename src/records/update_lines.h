// Files of a run with one JSON object per line and its "update": metrics, evaluations, events. Lines are appended during a run. A
// run resumed from a checkpoint keeps those of the checkpoint's updates. Lines of more than 64 KiB or 2,000 values are invalid.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "formats/bounded_json.h"

namespace plimsoll {

class File;

// Limits of a valid line. Plimsoll's own lines are far below them.
inline constexpr JsonLimits kLineLimits{.bytes = 64 << 10, .values = 2000, .depth = 16};

// Calls visit(line, begin, end) for each line with an end, from the byte `from` on; `end` is after its line break. A line over
// the limit is cut, so it is no JSON object.
void for_each_whole_line(const File& file, std::int64_t from,
                         const std::function<void(std::string_view, std::int64_t, std::int64_t)>& visit);

enum class PerUpdate { one, any };

// Keeps the lines of updates up to `updates`, in order. Invalid lines, such as the torn end of a file, are dropped. `one`: the
// last line of each update stays. A file in order with one hard link is shortened in place, any other is replaced. An absent file
// stays absent. data_error E-IO-WRITE if the file cannot be changed.
void cut_lines(const std::filesystem::path& path, std::int64_t updates, PerUpdate count);

// Writes the lines of later updates, as they are, into another file. No such line: no file.
void copy_lines_after(const std::filesystem::path& path, std::int64_t updates, const std::filesystem::path& to);

// Opens a file of lines for appending, and creates it if absent. `folder`: the descriptor of its folder; -1: uses the path.
// data_error E-IO-WRITE for links and other files that are not regular.
int open_lines(int folder, const std::filesystem::path& path);

// Appends all of the text, or nothing if the disk takes less.
void append_text(int fd, const std::filesystem::path& path, std::string_view text);

// Syncs the appended lines to the disk. An absent file is skipped.
void sync_file(int folder, const std::filesystem::path& path);

}  // namespace plimsoll
