// tokenizer.json, read as a stream and parsed as hostile: tokens and merges go into flat tables, the small parts stay JSON.
// Memory while reading: the tables, a buffer of 64 KiB, and the longest text of the file (at most 1 MiB).
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/merge_table.h"
#include "formats/tokenizer/added_tokens.h"
#include "formats/tokenizer/token_table.h"

namespace plimsoll {

struct TokenizerFile {
  TokenizerFile();
  ~TokenizerFile();
  TokenizerFile(TokenizerFile&&) noexcept;

  std::string where;  // the path
  std::string hash;   // of the bytes of the file
  TokenTable tokens;
  MergeTable merges;
  std::vector<AddedTokenEntry> added;
  // "normalizer", "pre_tokenizer", "post_processor", "decoder", and "model" without its tokens and merges.
  std::unique_ptr<nlohmann::json> parts;
};

// E-TOKENIZER: it is no JSON, nested too deeply, too large, lacks what it must have, or has it twice; a merge that is none.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);

}  // namespace plimsoll
