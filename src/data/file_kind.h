// The evident kind of a data file, judged by its first bytes and its name. "auto" follows it; foreign kinds are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/remedy.h"
#include "formats/file.h"

namespace plimsoll {

// The header of llm.c's token files: magic, version and token count in 32 bits each, then zeros up to 1,024 bytes.
struct LlmcHeader {
  std::int32_t magic = 0, version = 0, tokens = 0;
};
inline constexpr std::int64_t kLlmcHeaderBytes = 1024;
inline constexpr LlmcHeader kLlmcNarrow{20240520, 1, 0}, kLlmcWide{20240801, 7, 0};  // of uint16, of uint32 tokens

// Numbers past the end of the file are 0.
LlmcHeader read_llmc_header(const File& file);
// 2 or 4; 0 for any other magic or version.
std::int64_t bytes_per_token(const LlmcHeader& header);
// Compares the magic number alone.
bool begins_like_llmc(const File& file);

// A file that is neither text nor uint16 tokens.
struct ForeignKind {
  std::string what;     // "a gzip file"
  Remedy remedy;        // the conversion to text or tokens
  std::string samples;  // the conversion to JSON samples; empty: none
  bool json = false;    // perhaps samples of varying length
};
// Evidence for the kind of a file. The bytes of an archive, UTF-16 or tokens are proof; a name or JSON text is a hint.
enum class KindBy { all, bytes };
// `tokens`: the file is read as uint16 tokens, else as text. `vocab`: tokens of the model's vocabulary.
std::optional<ForeignKind> foreign_kind(const File& file, bool tokens, std::int64_t vocab, KindBy by = KindBy::all);
// True if a text begins with a JSON object or array, one per line or as the whole file.
bool looks_like_json(const File& file);

}  // namespace plimsoll
