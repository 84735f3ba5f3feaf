// Token files on their way from one process to another. A child process opens (and tokenises) the data; its parent opens the same
// files again from a JSON object, and reads them without a vocabulary.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "data/source.h"

namespace plimsoll {

// {"samples": ..., "cut": ...}: kSampleCounts.
nlohmann::json to_json(const SampleCounts& counts);

// data_error E-DATA-PATH if a path (such as that of the cache) is not UTF-8, which JSON cannot hold.
nlohmann::json to_json(const TokenFile& file);
// data_error E-DATA-CHANGED if a file is another one than the opened one, or has been written to since.
TokenFile token_file_from(const nlohmann::json& object);

// The path, if JSON can hold it; data_error E-DATA-PATH.
const std::string& json_path(const std::string& path);
nlohmann::json to_json(const FileStamp& stamp);
// The same file opened again; data_error E-DATA-CHANGED.
File file_at(const std::string& path, const nlohmann::json& stamp);

}  // namespace plimsoll
