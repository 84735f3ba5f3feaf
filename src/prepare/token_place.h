// The location of a token file, also as JSON text, so that a child process can open (and tokenise) data and its parent can read
// it without a vocabulary.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/source.h"

namespace plimsoll {

struct TokenPartPlace {
  std::string path, name;
  std::int64_t offset = 0, tokens = 0;
  FileStamp stamp;  // stamp of the file that was opened
};

struct TokenFilePlace {
  std::vector<TokenPartPlace> parts;
  std::string name, format;
  std::int64_t bytes_per_token = 1, vocab = 256;
  std::int64_t samples = 0, table = 0;
  bool keeps_vocab = false;
  SampleCounts counts;
  std::vector<std::string> notes;
};

TokenFilePlace place_of(const TokenFile& file);
// data_error E-DATA-CHANGED if a file is another one than the opened one, or has been written to since.
TokenFile open_place(const TokenFilePlace& place);

// {"samples": ..., "cut": ...}: kSampleCounts.
nlohmann::json to_json(const SampleCounts& counts);

// data_error E-DATA-PATH if a path (such as that of the cache) is not UTF-8, which JSON cannot hold.
nlohmann::json to_json(const TokenFilePlace& place);
TokenFilePlace place_from(const nlohmann::json& object);

// Opens a data file in a child, since tokenising takes memory of its own.
TokenFile open_in_child(const Config& config, const DataPaths& paths, const std::filesystem::path& cache);
// The training data without the held-out share, and the held-out share itself, or the training data if there is none.
TokenFile open_training_in_child(const Config& config, const std::filesystem::path& cache);
TokenFile open_validation_in_child(const Config& config, const std::filesystem::path& cache);

}  // namespace plimsoll
