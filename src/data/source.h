// Token sources: files of tokens of fixed width, whatever they were to begin with. Text for a BPE vocabulary is tokenised once
// into a token file under a cache folder. Nothing here holds tokens in memory; window.h and prefetch.h read them by position.
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

// One file of them.
struct TokenPart {
  File file;
  std::string name;         // the path that the user gave, for messages
  std::int64_t offset = 0;  // of the first token, in bytes
  std::int64_t tokens = 0;
  FileStamp stamp;  // of the file when it was opened
};

// One stream of tokens: those of its files one after the other, with nothing between them. Samples are cut from it by the
// context, unless it has some of their own lengths (sample_file.h).
struct TokenFile {
  std::vector<TokenPart> parts;      // at least one
  std::string name;                  // what the user gave, for messages
  std::int64_t tokens = 0;           // of all parts, at least 2
  std::int64_t bytes_per_token = 1;  // 1, 2 or 4: as the files store a token, little-endian
  std::int64_t vocab = 256;          // tokens are checked against it when they are read
  bool keeps_vocab = false;          // it is that of weights, and no key changes it
  std::string format;                // "bytes", "u16", "u32", "llmc", "bpe", "samples"
  std::int64_t samples = 0;          // of their own lengths; 0: none
  std::int64_t table = 0;            // of these: where their records begin in the only part
  SampleCounts counts;               // of the data that they were made from
  std::vector<std::string> notes;    // what a user must know of the data

  // Fills `bytes` with the tokens from `first` on. E-DATA-CHANGED where somebody has written to the file since it was opened.
  void read(std::int64_t first, std::span<std::byte> bytes) const;
};

struct SourceRequest {
  DataPaths paths;
  // "bytes": text, one token per byte. "u16", "u32": raw little-endian uint16 or uint32. "llmc": one of the two behind llm.c's
  // header of 1,024 bytes, which says which. "bpe": text through the vocabulary, stored in 2 bytes a token or, past 65,536
  // tokens, in 4. "auto": llmc by its header; u16 for the extension .bin; bpe where the model's vocabulary passes 256 and a
  // vocabulary folder is given; else bytes. What is evidently something else (file_kind.h) is refused: by its bytes, where the
  // format is given, and by its name as well with "auto". "bytes" takes any file.
  std::string format = "auto";
  std::int64_t vocab = 256;              // of the model
  std::filesystem::path vocabulary;      // folder of a BPE vocabulary; may be empty
  std::filesystem::path cache;           // folder for token files of "bpe"; created where it is absent
  std::filesystem::path elsewhere = {};  // for them where the cache cannot be written; empty: nowhere
  // Folder of the weights where these know tokens that are no bytes: "auto" then refuses to read text as bytes.
  std::filesystem::path trained = {};
  // `vocab` is that of weights, and no key changes it. A vocabulary may then have more tokens, of which the text may hold none.
  bool keeps_vocab = false;
};

// "bpe" takes about 8 MiB of memory for GPT-2's vocabulary, most of it while that is read. Errors:
//   E-DATA-MISSING   there is no file
//   E-DATA-FILES     a pattern or a folder has no files
//   E-DATA-EMPTY     a file is empty
//   E-DATA-FORMAT    a size is no whole number of tokens, a header is broken, a file is evidently something else, or files have
//                    several formats or widths
//   E-DATA-CHANGED   a text was written to while it was tokenised
//   E-DATA-SHORT     there are fewer than two tokens
//   E-DATA-TOKEN     the vocabulary of "bpe" is larger than the model's, or text has a token that the weights have no row for
//   E-TOKENIZER      text has tokens that would be split, or the tokenizer of the model is not read
//   E-IO-WRITE       there is no place for tokens
//   E-CONFIG-VALUE   the format is unknown, or "bpe" has no vocabulary
TokenFile open_source(const SourceRequest& request);

// E-DATA-FORMAT where one of the two is bytes and the other one tokens of a vocabulary. Also where one is text that goes through
// the vocabulary and the other one brings tokens. Tokens may differ in width.
void require_one_kind(const TokenFile& train, const TokenFile& validation);

// What the file would be were it there, as far as request and name say it: "bytes", "u16", "u32", "llmc" or "bpe".
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
// E-DATA-TOKEN: `where` has a token of the tokenizer that the weights, of `vocab` rows, have no row for.
Error rowless_token_error(std::string where, std::string_view text, std::int64_t token, std::int64_t vocab);

// 32 hex digits over the tokens and their width. Reads the file once, in pieces, and drops them from the page cache.
// E-DATA-CHANGED where somebody has written to it since it was opened.
std::string content_hash(const TokenFile& source);

// Reads the tokens of the first `samples` samples of `context` tokens (0: all) once, in pieces, as above. E-DATA-TOKEN names the
// first one that is past the vocabulary.
void check_tokens(const TokenFile& source, std::int64_t context, std::int64_t samples);

}  // namespace plimsoll
