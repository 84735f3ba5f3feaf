// The content of a tokenizer's files of any kind: flat tables of tokens and merges, and the small parts in the form of
// tokenizer.json.
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
  std::filesystem::path vocab_folder;  // the folder of GPT-2's two files; empty: files of another kind
};

// The tokenizer of a folder, of a file tokenizer.json or tokenizer.model, or of a GGUF file. In a folder tokenizer.json comes
// first, then tokenizer.model as the only file of the tokenizer, then GPT-2's files.
TokenizerFile read_tokenizer(const std::filesystem::path& path);
// The tokenizer of a folder or of a GGUF file. GPT-2's vocab.json and merges.txt take precedence over a tokenizer.json that adds
// nothing to them.
TokenizerFile read_vocabulary(const std::filesystem::path& path);

}  // namespace plimsoll
