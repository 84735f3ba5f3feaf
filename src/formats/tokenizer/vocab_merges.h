// A byte-level BPE as GPT-2 publishes it: vocab.json and merges.txt, or encoder.json and vocab.bpe. Both are parsed as hostile
// (data_error E-FORMAT-VOCABULARY). Such a tokenizer takes any bytes. Files next to these may add tokens to it, which are not
// read: a text that has one of them is refused.
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

// E-IO-MISSING where the folder has no such files.
TokenizerFile read_vocab_merges(const std::filesystem::path& folder);

struct AddedToken {
  std::string text;
  std::string file;  // that names it
};

// The tokens that the folder adds and Plimsoll would split, each once. E-TOKENIZER where a file is broken, or where
// tokenizer.json is another tokenizer than that of the two files, which has these tokens and merges.
std::vector<AddedToken> unread_tokens(const std::filesystem::path& folder, const TokenTable& tokens, const MergeTable& merges);

// E-TOKENIZER: such a token is in a text.
Error unread_token_error(const AddedToken& token, const std::string& where, std::size_t byte);
// Throws it for the first one.
void refuse_unread(std::string_view text, std::span<const AddedToken> tokens, const std::string& where);

}  // namespace plimsoll
