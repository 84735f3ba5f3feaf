// Files of a run with a JSON object a line that says its "update": metrics, evaluations, events. They are appended to while a run
// goes on; a run that goes on from a checkpoint keeps what the checkpoint has made. Lines are read one at a time, of up to 64
// KiB; a longer one, or one of more than 2,000 values, is none of these.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace plimsoll {

enum class PerUpdate { one, any };

// Keeps the lines of the updates up to `updates`, in the order of updates. What is no such line, as the torn end of a file, goes.
// `one`: of several lines of an update the last one stays. A file that is in order and has no other name is shortened in place;
// any other is replaced. An absent file stays absent. data_error E-IO-WRITE where the file cannot be changed.
void cut_lines(const std::filesystem::path& path, std::int64_t updates, PerUpdate count);

// Calls see(object) for every line that is a JSON object. An absent file has none.
void for_each_line(const std::filesystem::path& path, const std::function<void(const nlohmann::json&)>& see);

// Opens a file of lines to append to, which is made where it is absent. `folder`: the descriptor of the folder that holds it; -1
// goes by the path. data_error E-IO-WRITE where there is a link, or no regular file.
int open_lines(int folder, const std::filesystem::path& path);

// All of it or, where the disk takes less, nothing.
void append_text(int fd, const std::filesystem::path& path, std::string_view text);

// Brings what was appended to the disk. An absent file is none of its business.
void sync_file(int folder, const std::filesystem::path& path);

}  // namespace plimsoll
