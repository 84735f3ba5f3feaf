// The tokenizer of a Hugging Face folder as keys of a GGUF file: tokenizer.json, or GPT-2's vocab.json and merges.txt, with what
// tokenizer_config.json, config.json and generation_config.json say of special tokens, and the chat template.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "formats/gguf/gguf_keys.h"

namespace plimsoll {

struct GgufTokenizerKeys {
  GgufKeys keys;
  bool tokenizer = false;  // without one there are only the ids that config.json says
  bool chat_template = false;
  // Metaspace's space before a text, "first" or "always"; llama.cpp puts one before some more. Empty: like llama.cpp.
  std::string spaces;
};

// GGUF has no key for it: how Metaspace puts a space before a text, as its prepend_scheme says it.
inline constexpr const char* kGgufSpaces = "plimsoll.prepend_scheme";

// `vocab`: rows of the model's table, which has a token for each in the file. E-EXPORT-TOKENIZER where GGUF has no name for how
// the tokenizer works; E-TOKENIZER where a file is broken.
GgufTokenizerKeys gguf_tokenizer_keys(const std::filesystem::path& folder, std::int64_t vocab, std::string_view architecture);

}  // namespace plimsoll
