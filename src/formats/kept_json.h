// Small facts that a cache keeps as JSON. A seal binds a file to its name and its content, and only a file that this user alone
// can have written is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace plimsoll {

// Makes the folder; replaces the file as a whole. data_error E-IO-WRITE.
void keep_json(const std::filesystem::path& path, nlohmann::json object);

// Without its seal; nothing where the file is absent, somebody else's, larger than `limit` bytes, damaged, or another file
// renamed.
std::optional<nlohmann::json> kept_json(const std::filesystem::path& path, std::int64_t limit);

}  // namespace plimsoll
