// The evident kind of a data file, judged by its first bytes and its name. "auto" follows it; foreign kinds are refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/remedy.h"
#include "formats/file.h"

namespace plimsoll {

// How llm.c begins a file of tokens: three numbers of 32 bits, the third of which counts tokens, and zeros up to 1,024 bytes.
struct LlmcHeader {
  std::int32_t magic = 0, version = 0, tokens = 0;
};
inline constexpr std::int64_t kLlmcHeaderBytes = 1024;
inline constexpr LlmcHeader kLlmcNarrow{20240520, 1, 0}, kLlmcWide{20240801, 7, 0};  // of uint16, of uint32 tokens

// Zeros where the file ends before.
LlmcHeader read_llmc_header(const File& file);
// 2 or 4; 0 where this is no such header, or of another version.
std::int64_t bytes_per_token(const LlmcHeader& header);
// By the magic number alone.
bool begins_like_llmc(const File& file);

// Neither text nor uint16 tokens.
struct ForeignKind {
  std::string what;     // "a gzip file"
  Remedy remedy;        // how it becomes one of them
  std::string samples;  // how it becomes JSON samples; empty: not at all
  bool json = false;    // perhaps samples of their own lengths
};
// Evidence for the kind of a file. The bytes of an archive, of UTF-16 or of tokens are proof. A name or JSON text is a hint.
enum class KindBy { all, bytes };
// `tokens`: true if the file is read as uint16 tokens; false: as text. `vocab`: of the model.
std::optional<ForeignKind> foreign_kind(const File& file, bool tokens, std::int64_t vocab, KindBy by = KindBy::all);
// True if a text begins with a JSON object or array, one a line or as the whole file.
bool looks_like_json(const File& file);

}  // namespace plimsoll
