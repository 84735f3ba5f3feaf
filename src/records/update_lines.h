// Files of a run with a JSON object a line that says its "update": metrics, evaluations, events. They are appended to while a run
// goes on; a run that goes on from a checkpoint keeps what the checkpoint has made.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace plimsoll {

enum class PerUpdate { one, any };

// Keeps the lines of the updates up to `updates`, in the order of updates. What is no such line, as the torn end of a file, goes.
// `one`: of several lines of an update the last one stays. A file that is in order is shortened in place; any other is replaced.
// An absent file stays absent. data_error E-IO-WRITE where the file cannot be changed.
void cut_lines(const std::filesystem::path& path, std::int64_t updates, PerUpdate count);

// Calls see(object) for every line that is a JSON object.
void for_each_line(const std::filesystem::path& path, const std::function<void(const nlohmann::json&)>& see);

// Appends to a file, which is made where it is absent.
void append_text(const std::filesystem::path& path, std::string_view text);

// Brings what was appended to the disk. An absent file is none of its business.
void sync_file(const std::filesystem::path& path);

}  // namespace plimsoll
