// Small JSON files of a cache. A seal binds a file to its name and its content. Only a file that no other user can have written
// is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace plimsoll {

// Creates the folder and replaces the file as a whole. data_error E-IO-WRITE.
void keep_json(const std::filesystem::path& path, nlohmann::json object);

// The object without its seal. Absent if the file is missing, writable for others, larger than `limit` bytes, damaged or renamed.
std::optional<nlohmann::json> kept_json(const std::filesystem::path& path, std::int64_t limit);

}  // namespace plimsoll
