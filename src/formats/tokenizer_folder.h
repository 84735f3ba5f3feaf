// The files of a tokenizer and of generation that a folder has next to weights. formats/tokenizer/ reads them.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace plimsoll {

// True if a folder, or a GGUF file, has a vocabulary that is read: tokenizer.json, tokenizer.model alone, or GPT-2's files under
// either name.
bool has_vocabulary(const std::filesystem::path& folder);
// The name of a file in the folder, or of a key in a GGUF file, that belongs to a tokenizer of whatever kind; empty where there
// is none.
std::string tokenizer_file_in(const std::filesystem::path& folder);

// The files of a folder that are kept with its weights as they are: those of its tokenizer, and those that say how it generates.
std::span<const std::string_view> tokenizer_files();
std::span<const std::string_view> generation_files();
// Copies those of `names` that `from` has, each whole or not at all. `replace`: also what `to` has already.
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to, std::span<const std::string_view> names,
                bool replace);

// The same for one file under another name.
void copy_whole(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace plimsoll
