// The files of a tokenizer and of generation in a folder of weights. formats/tokenizer/ reads them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// True if a folder or a GGUF file has a supported vocabulary: tokenizer.json, tokenizer.model as its only tokenizer file, or
// GPT-2's files under either pair of names.
bool has_vocabulary(const std::filesystem::path& folder);
// The name of a file in the folder, or of a key in a GGUF file, that belongs to any tokenizer; empty if there is none.
std::string tokenizer_file_in(const std::filesystem::path& folder);

// The files that are copied with the weights: those of the tokenizer, and those with settings of generation.
std::span<const std::string_view> tokenizer_files();
std::span<const std::string_view> generation_files();
// Copies the files of `names` that exist in `from`, each atomically. `replace`: overwrites existing files in `to`.
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to, std::span<const std::string_view> names,
                bool replace);

// Copies one file to a path atomically.
void copy_whole(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace plimsoll
