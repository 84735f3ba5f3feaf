// A tokenizer as files describe it, whatever their kind: flat tables of its tokens and merges, and its small parts as
// tokenizer.json has them.
#pragma once

#include <filesystem>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "formats/tokenizer/added_tokens.h"
#include "formats/tokenizer/merge_table.h"
#include "formats/tokenizer/token_table.h"

namespace plimsoll {

struct TokenizerFile {
  TokenizerFile();
  ~TokenizerFile();
  TokenizerFile(TokenizerFile&&) noexcept;

  // The part of this name; null where it is absent.
  const nlohmann::json* part(const char* name) const;

  std::string where;  // the path
  std::string hash;   // of the content
  TokenTable tokens;
  MergeTable merges;
  std::vector<AddedTokenEntry> added;
  // "normalizer", "pre_tokenizer", "post_processor", "decoder", and "model" without its tokens and merges.
  std::unique_ptr<nlohmann::json> parts;
  std::filesystem::path vocab_folder;  // of GPT-2's two files; empty: of another kind
};

// The tokenizer of a folder, of the file tokenizer.json or tokenizer.model itself, or of a GGUF file. A folder's tokenizer.json
// comes first, then tokenizer.model alone, then GPT-2's files.
TokenizerFile read_tokenizer(const std::filesystem::path& path);
// The same, but GPT-2's vocab.json and merges.txt where tokenizer.json has nothing that these lack.
TokenizerFile read_vocabulary(const std::filesystem::path& path);

}  // namespace plimsoll
