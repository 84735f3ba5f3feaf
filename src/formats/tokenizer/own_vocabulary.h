// The vocabulary that a folder, or a GGUF file, carries.
#pragma once

#include <filesystem>
#include <string>

namespace plimsoll {

// True if it holds a vocabulary that is read: tokenizer.json, tokenizer.model alone, or GPT-2's files under either name.
bool has_vocabulary(const std::filesystem::path& folder);
// Identifies what the vocabulary makes of a text; empty where there is none. Reads the files.
std::string vocabulary_hash(const std::filesystem::path& folder);

}  // namespace plimsoll
