// A model of SentencePiece (tokenizer.model) as a tokenizer.json, for folders that have no other file of their tokenizer. BPE is
// read, as Llama, Mistral and Gemma use it. What is not computed (Unigram, a table of normalisation) is data_error E-TOKENIZER.
// Facts: sentencepiece_model.proto, and how transformers makes fast tokenizers of such models.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace plimsoll {

inline constexpr const char* kSentencePieceFile = "tokenizer.model";
inline constexpr std::string_view kSpaceMark = "\u2581";  // stands for a space

// Spaces in place of marks.
std::string without_marks(std::string_view text);
// The decoder of vocabularies with marks. `prefix`: a space was put before a text.
nlohmann::ordered_json marks_decoder(bool prefix);

// True if this file is the only tokenizer file of a folder.
bool has_sentencepiece_alone(const std::filesystem::path& folder);

// With what tokenizer_config.json and added_tokens.json beside it say: further tokens, and which stand before and behind a text.
void write_sentencepiece_json(const std::filesystem::path& model, const std::filesystem::path& tokenizer_json);

}  // namespace plimsoll
