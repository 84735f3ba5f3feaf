// What a folder with GPT-2's vocab.json and merges.txt says of its tokens beside them: tokens that are added to the vocabulary,
// and a tokenizer.json that says the same. What they say beyond it is refused where it would change a token (data_error
// E-TOKENIZER), and kept with the weights. formats/tokenizer/ reads a tokenizer.json that says more.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/bpe_vocabulary.h"

namespace plimsoll {

struct AddedToken {
  std::string text;
  std::string file;  // that names it
};

// The tokens that a folder adds and Plimsoll would split, each once. E-TOKENIZER where a file is broken, or where tokenizer.json
// is another tokenizer than `vocabulary`, which was read from the same folder.
std::vector<AddedToken> unread_tokens(const std::filesystem::path& folder, const BpeVocabulary& vocabulary);

// E-TOKENIZER: such a token is in a text.
Error unread_token_error(const AddedToken& token, const std::string& where, std::size_t byte);
// Throws it for the first one.
void refuse_unread(std::string_view text, std::span<const AddedToken> tokens, const std::string& where);

// The name of a file in the folder, or of a key in a GGUF file, that belongs to a tokenizer of whatever kind; empty where there
// is none.
std::string tokenizer_file_in(const std::filesystem::path& folder);

// The files of a folder that are kept with its weights as they are: those of its tokenizer, and those that say how it generates.
std::span<const std::string_view> tokenizer_files();
std::span<const std::string_view> generation_files();
// Copies those of `names` that `from` has, each whole or not at all. `replace`: also what `to` has already.
void copy_files(const std::filesystem::path& from, const std::filesystem::path& to, std::span<const std::string_view> names,
                bool replace);

}  // namespace plimsoll
