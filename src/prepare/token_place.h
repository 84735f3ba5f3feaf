// Token files opened in child processes. The child opens (and tokenises) the data; its parent opens the same files again from a
// JSON text, and reads them without a vocabulary.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "config/config.h"
#include "data/source.h"

namespace plimsoll {

// {"samples": ..., "cut": ...}: kSampleCounts.
nlohmann::json to_json(const SampleCounts& counts);

// data_error E-DATA-PATH if a path (such as that of the cache) is not UTF-8, which JSON cannot hold.
nlohmann::json to_json(const TokenFile& file);
// data_error E-DATA-CHANGED if a file is another one than the opened one, or has been written to since.
TokenFile token_file_from(const nlohmann::json& object);

// Opens a data file in a child, since tokenising takes memory of its own.
TokenFile open_in_child(const Config& config, const DataPaths& paths, const std::filesystem::path& cache);
// The training data without the held-out share, and the held-out share itself, or the training data if there is none.
TokenFile open_training_in_child(const Config& config, const std::filesystem::path& cache);
TokenFile open_validation_in_child(const Config& config, const std::filesystem::path& cache);

}  // namespace plimsoll
