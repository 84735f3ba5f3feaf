// The keys of a tokenizer in a GGUF file, and llama.cpp's names for ways to cut text. Reading and writing share the table.
#pragma once

#include <span>
#include <string_view>

namespace plimsoll {

inline constexpr const char* kGgufTokens = "tokenizer.ggml.tokens";
inline constexpr const char* kGgufTokenTypes = "tokenizer.ggml.token_type";
// Values of tokenizer.ggml.model. The first one is also the architecture of the oldest files, which lack the key
// tokenizer.ggml.pre.
inline constexpr std::string_view kGgufByteLevel = "gpt2";  // byte-level BPE
inline constexpr std::string_view kGgufScored = "llama";    // SentencePiece

enum class GgufTokenKind { normal = 1, unknown, control, user, unused, byte };

// A way to cut text before the merges, with llama.cpp's name for it.
struct GgufCutting {
  std::string_view name;
  const char* pattern = nullptr;  // null: the pattern of GPT-2
  bool digits = false;            // each digit is a piece, before the words
  bool composes = false;          // Unicode NFC before cutting
  bool whole_pieces = false;      // a piece that is a token needs no merges
  bool begins = false;            // by default a text begins with a token
};
// All ways, GPT-2's first. Writing uses the first of several names for one way.
std::span<const GgufCutting> gguf_cuttings();

}  // namespace plimsoll
