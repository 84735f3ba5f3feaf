// The keys of a tokenizer in a GGUF file, and the ways to cut text that llama.cpp has names for: one table for files
// that are read and files that are written.
#pragma once

#include <span>
#include <string_view>

namespace plimsoll {

inline constexpr const char* kGgufTokens = "tokenizer.ggml.tokens";
inline constexpr const char* kGgufTokenTypes = "tokenizer.ggml.token_type";
// Values of tokenizer.ggml.model. The first one is also the architecture of the first files, which lack the key of cutting.
inline constexpr std::string_view kGgufByteLevel = "gpt2";  // byte-level BPE
inline constexpr std::string_view kGgufScored = "llama";    // SentencePiece

enum class GgufTokenKind { normal = 1, unknown, control, user, unused, byte };

// How text is cut before the merges, by the name that llama.cpp has for it.
struct GgufCutting {
  std::string_view name;
  const char* pattern = nullptr;  // null: the words of GPT-2
  bool digits = false;            // each by itself, before the words
  bool composes = false;          // Unicode NFC comes first
  bool whole_pieces = false;      // a piece that is a token needs no merges
  bool begins = false;            // a text begins with a token, unless the file says otherwise
};
// GPT-2's first. Of several names for one way the first one is written.
std::span<const GgufCutting> gguf_cuttings();

}  // namespace plimsoll
