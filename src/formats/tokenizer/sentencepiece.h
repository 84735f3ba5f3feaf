// A model of SentencePiece (tokenizer.model) as a tokenizer.json, for folders that have no other file of their tokenizer. BPE is
// read, as Llama, Mistral and Gemma use it. What is not computed (Unigram, a table of normalisation) is data_error E-TOKENIZER.
// Facts: sentencepiece_model.proto, and how transformers makes fast tokenizers of such models.
#pragma once

#include <filesystem>

namespace plimsoll {

inline constexpr const char* kSentencePieceFile = "tokenizer.model";

// True if this file is the only tokenizer file of a folder.
bool has_sentencepiece_alone(const std::filesystem::path& folder);

// With what tokenizer_config.json and added_tokens.json beside it say: further tokens, and which stand before and behind a text.
void write_sentencepiece_json(const std::filesystem::path& model, const std::filesystem::path& tokenizer_json);

}  // namespace plimsoll
