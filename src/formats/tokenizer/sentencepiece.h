// A model of SentencePiece (tokenizer.model) as a tokenizer.json, for folders without another file of their tokenizer. BPE is
// supported, as in Llama, Mistral and Gemma. Unigram and tables of normalisation are refused: data_error E-TOKENIZER. Facts:
// sentencepiece_model.proto, and the conversion to fast tokenizers in transformers.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr const char* kSentencePieceFile = "tokenizer.model";
inline constexpr std::string_view kSpaceMark = "\u2581";  // stands for a space

// The text with spaces in place of marks.
std::string without_marks(std::string_view text);
// The decoder of vocabularies with marks. `prefix`: a space was put before a text.
nlohmann::ordered_json marks_decoder(bool prefix);

// True if this file is the only tokenizer file of a folder.
bool has_sentencepiece_alone(const std::filesystem::path& folder);

// Writes the tokenizer.json. tokenizer_config.json and added_tokens.json next to the model give further tokens and the tokens
// before and after a text.
void write_sentencepiece_json(const std::filesystem::path& model, const std::filesystem::path& tokenizer_json);

}  // namespace plimsoll
