// A byte-level BPE in the files of GPT-2: vocab.json and merges.txt, or encoder.json and vocab.bpe. Neither is trusted
// (data_error E-FORMAT-VOCABULARY). Such a tokenizer encodes any bytes. Other files in the folder may add tokens, which are not
// read; a text with such a token is refused.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/tokenizer/tokenizer_file.h"

namespace plimsoll {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// E-IO-MISSING if the folder has no such files.
TokenizerFile read_vocab_merges(const std::filesystem::path& folder);

struct AddedToken {
  std::string text;
  std::string file;  // the file that adds it
};

// The added tokens of the folder that Plimsoll would split, each once. E-TOKENIZER: a file is broken, or tokenizer.json differs
// from the two files with these tokens and merges.
std::vector<AddedToken> unread_tokens(const std::filesystem::path& folder, const TokenTable& tokens, const MergeTable& merges);

// E-TOKENIZER: a text has such a token at `byte`.
Error unread_token_error(const AddedToken& token, const std::string& where, std::size_t byte);
// Throws unread_token_error for the first such token in the text.
void refuse_unread(std::string_view text, std::span<const AddedToken> tokens, const std::string& where);

}  // namespace plimsoll
