// Token sources: files of tokens of fixed width. Text for a BPE vocabulary is tokenised once into a token file in a cache folder.
// Nothing here holds tokens in memory; window.h and prefetch.h read them by position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/data_paths.h"
#include "data/sample_counts.h"
#include "formats/file_stamp.h"

namespace plimsoll {

// One file of a token source.
struct TokenPart {
  File file;
  std::string name;         // the path that the user gave, for messages
  std::int64_t offset = 0;  // of the first token, in bytes
  std::int64_t tokens = 0;
  FileStamp stamp;  // of the file when it was opened
};

// One stream of tokens: those of its files one after the other, with nothing between them. Samples are cut from it by the
// context, unless it stores samples of varying length (sample_file.h).
struct TokenFile {
  std::vector<TokenPart> parts;      // at least one
  std::string name;                  // the user's name for it, for messages
  std::int64_t tokens = 0;           // of all parts, at least 2
  std::int64_t bytes_per_token = 1;  // in the files: 1, 2 or 4, little-endian
  std::int64_t vocab = 256;          // tokens are checked against it when they are read
  bool keeps_vocab = false;          // weights fix `vocab`; no key changes it
  std::string format;                // "bytes", "u16", "u32", "llmc", "bpe", "samples"
  std::int64_t samples = 0;          // stored samples of varying length; 0: none
  std::int64_t table = 0;            // offset of their records in the only part, in bytes
  SampleCounts counts;               // of the original data
  std::vector<std::string> notes;    // remarks on the data for the user

  // Fills `bytes` with the tokens from `first` on. E-DATA-CHANGED if the file was written to since it was opened.
  void read(std::int64_t first, std::span<std::byte> bytes) const;
};

struct SourceRequest {
  DataPaths paths;
  // "bytes": text, one token per byte; takes any file.
  // "u16", "u32": raw little-endian uint16 or uint32.
  // "llmc": one of the two after llm.c's header of 1,024 bytes, which names the width.
  // "bpe": text through the vocabulary, stored in 2 bytes per token or, past 65,536 tokens, in 4.
  // "auto": llmc by its header, or u16 by the extension .bin. Text is bpe if the model's vocabulary passes 256 and a vocabulary
  // folder is given, else bytes.
  // Files of an evident other kind (file_kind.h) are refused: a given format judges by the bytes, "auto" by the name as well.
  std::string format = "auto";
  std::int64_t vocab = 256;              // of the model
  std::filesystem::path vocabulary;      // folder of a BPE vocabulary; may be empty
  std::filesystem::path cache;           // folder for token files of "bpe"; created if absent
  std::filesystem::path elsewhere = {};  // the folder if the cache is not writable; empty: none
  // Folder of weights that know tokens other than bytes: "auto" then refuses to read text as bytes.
  std::filesystem::path trained = {};
  // Weights fix `vocab`; no key changes it. The vocabulary may then have further tokens, which the text must not contain.
  bool keeps_vocab = false;
};

// "bpe" takes about 8 MiB of memory for GPT-2's vocabulary, most of it while reading the vocabulary. Errors:
//   E-DATA-MISSING   there is no file
//   E-DATA-FILES     a pattern or a folder has no files
//   E-DATA-EMPTY     a file is empty
//   E-DATA-FORMAT    a size is no whole number of tokens, a header is broken, a file is of another kind, or files have
//                    several formats or widths
//   E-DATA-CHANGED   a text was written to during tokenisation
//   E-DATA-SHORT     there are fewer than two tokens
//   E-DATA-TOKEN     the vocabulary of "bpe" is larger than the model's, or text has a token without a row in the weights
//   E-TOKENIZER      text has tokens that would be split, or the tokenizer of the model is not supported
//   E-IO-WRITE       no folder for token files is writable
//   E-CONFIG-VALUE   the format is unknown, or "bpe" has no vocabulary
TokenFile open_source(const SourceRequest& request);

// E-DATA-FORMAT if one of the two is bytes and the other one tokens of a vocabulary, or if one is text for the vocabulary and the
// other one has tokens already. Tokens may differ in width.
void require_one_kind(const TokenFile& train, const TokenFile& validation);

// The assumed format of an absent file, from request and name: "bytes", "u16", "u32", "llmc" or "bpe".
struct AssumedSource {
  std::string format;
  std::int64_t bytes_per_token = 1;  // at most
};
AssumedSource assume_source(const SourceRequest& request);

// A token as it is stored, in 1, 2 or 4 bytes.
inline std::uint32_t stored_token(const std::byte* raw, std::int64_t bytes_per_token) {
  std::uint32_t token = 0;
  std::memcpy(&token, raw, static_cast<std::size_t>(bytes_per_token));
  return token;
}

// E-DATA-TOKEN: the token at this position is past the vocabulary.
Error token_error(const TokenFile& source, std::int64_t position, std::int64_t token);
// E-DATA-TOKEN: `where` has a token of the tokenizer past the `vocab` rows of the weights.
Error rowless_token_error(std::string where, std::string_view text, std::int64_t token, std::int64_t vocab);

// 32 hex digits over the tokens and their width. Reads the file once, in pieces, and drops them from the page cache.
// E-DATA-CHANGED if it was written to since it was opened.
std::string content_hash(const TokenFile& source);

// Reads the tokens of the first `samples` samples of `context` tokens (0: all) once, in pieces, as above. E-DATA-TOKEN names the
// first one that is past the vocabulary.
void check_tokens(const TokenFile& source, std::int64_t context, std::int64_t samples);

}  // namespace plimsoll
