// The tokenizer of a Hugging Face folder as keys of a GGUF file: tokenizer.json, or GPT-2's vocab.json and merges.txt; the
// special tokens of tokenizer_config.json, config.json and generation_config.json; and the chat template.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "formats/gguf/gguf_keys.h"

namespace plimsoll {

struct GgufTokenizerKeys {
  GgufKeys keys;
  bool tokenizer = false;  // false: the keys have only the ids of config.json
  bool chat_template = false;
  // The scheme of Metaspace for a space before a text, "first" or "always". llama.cpp puts a space before more texts. Empty: the
  // same as llama.cpp.
  std::string spaces;
};

// The key for the prepend_scheme of Metaspace, for which GGUF has none.
inline constexpr const char* kGgufSpaces = "plimsoll.prepend_scheme";

// `vocab`: rows of the model's token table; the file gets a token for each. E-EXPORT-TOKENIZER: GGUF has no name for the way the
// tokenizer works. E-TOKENIZER: a file is broken.
GgufTokenizerKeys gguf_tokenizer_keys(const std::filesystem::path& folder, std::int64_t vocab, std::string_view architecture);

}  // namespace plimsoll
